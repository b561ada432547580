"""The machine a lab host runs in: power, reset button, and a power cord that can be pulled.

A process of its own for each host, in a mount namespace of its own where the cgroups are pure v2
whatever the machine has. SIGTERM presses the power button, SIGUSR1 pulls the cord, and so does
the end of the process that borrowed the host. The disk survives both. With `clear` after its
order it only ends what a supervisor left running that was killed itself.
"""

from __future__ import annotations

import errno
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

REBOOT = 133
"""What systemd-nspawn ends with when its host wants to start again."""

CGROUPS = Path("/sys/fs/cgroup")
MOUNT = ("mount", "-t")


class Machine:
    """`order` holds name, disk, image, namespace, bridge and binds, and may name an owner."""

    def __init__(self, order: Mapping[str, str]) -> None:
        self.order = order
        self.disk = Path(order["disk"])
        self.cgroup = CGROUPS / order["cgroup"] / order["name"]
        self.running: subprocess.Popen[bytes] | None = None
        self.off = False
        self.forsaken = False

    def run(self) -> None:
        """Until the host is powered off; a reboot starts it again."""
        make_cgroups_pure()
        self.mount_disk()
        signal.signal(signal.SIGTERM, lambda *_: self.press_power_button())
        signal.signal(signal.SIGUSR1, lambda *_: self.pull_the_cord())
        if "owner" in self.order:
            threading.Thread(target=self.pull_when_gone, daemon=True).start()
        code = REBOOT
        while code == REBOOT and not self.off:
            self.clear_cgroup()
            self.running = subprocess.Popen(self.command(), preexec_fn=self.enter_cgroup)
            code = self.running.wait()
            print(f"supervisor: the host ended with {code}", flush=True)
        self.clear()
        if self.forsaken:
            subprocess.run(["umount", self.disk / "root"], check=True)
            shutil.rmtree(self.disk)

    def clear(self) -> None:
        """What nobody supervises is not running; then there is no process to speak of either."""
        self.clear_cgroup()
        (self.disk / "pid").unlink(missing_ok=True)

    def mount_disk(self) -> None:
        layers = f"lowerdir={self.order['image']},upperdir={self.disk}/up,workdir={self.disk}/work"
        subprocess.run([*MOUNT, "overlay", "-o", layers, "overlay", self.disk / "root"], check=True)

    def command(self) -> list[str]:
        return [
            "nsenter",
            f"--net={self.order['namespace']}",
            "systemd-nspawn",
            "--quiet",
            "--boot",
            "--keep-unit",
            "--register=no",
            f"--directory={self.disk}/root",
            f"--machine={self.order['name']}",
            f"--network-bridge={self.order['bridge']}",
            "--console=pipe",
            "--link-journal=no",
            "--resolv-conf=off",
            "--timezone=off",
            "--capability=all",
            "--system-call-filter=@keyring bpf @mount",
            *(f"--bind={bind}" for bind in self.order["binds"].split()),
        ]

    def enter_cgroup(self) -> None:
        (self.cgroup / "cgroup.procs").write_text(str(os.getpid()))
        # With `yes`, networkd would wait for udev for ever.
        os.environ["SYSTEMD_NSPAWN_API_VFS_WRITABLE"] = "network"
        os.environ["SYSTEMD_NSPAWN_UNIFIED_HIERARCHY"] = "1"

    def press_power_button(self) -> None:
        self.off = True
        if self.running is not None:
            self.running.terminate()

    def pull_the_cord(self) -> None:
        self.off = True
        self.kill()

    def pull_when_gone(self) -> None:
        """A host that was borrowed does not outlive its borrower, and nor does its disk."""
        with suppress(ProcessLookupError):
            borrower = os.pidfd_open(int(self.order["owner"]))
            select.select([borrower], [], [])
        self.forsaken = True
        os.kill(os.getpid(), signal.SIGUSR1)

    def kill(self) -> None:
        killer = self.cgroup / "cgroup.kill"
        if killer.exists():
            killer.write_text("1")

    def clear_cgroup(self) -> None:
        """Empty, and there."""
        self.kill()
        for folder in sorted(self.cgroup.glob("**/"), reverse=True):
            remove(folder)
        self.cgroup.mkdir(parents=True, exist_ok=True)
        hand_on_controllers(self.cgroup)


def make_cgroups_pure() -> None:
    subprocess.run(["umount", "-R", str(CGROUPS)], check=True)
    subprocess.run([*MOUNT, "cgroup2", "cgroup2", str(CGROUPS)], check=True)


def hand_on_controllers(folder: Path) -> None:
    """Whatever the machine limits processes with, as far as no cgroup v1 has it."""
    for above in (CGROUPS, *reversed(folder.relative_to(CGROUPS).parents[:-1])):
        parent = CGROUPS / above
        for name in (parent / "cgroup.controllers").read_text().split():
            with suppress(OSError):
                (parent / "cgroup.subtree_control").write_text(f"+{name}")


def remove(folder: Path) -> None:
    """The killed are still there for a moment."""
    for _ in range(100):
        with suppress(FileNotFoundError):
            try:
                folder.rmdir()
            except OSError as error:
                if error.errno != errno.EBUSY:
                    raise
                time.sleep(0.02)
                continue
        return


if __name__ == "__main__":
    machine = Machine(json.loads(sys.argv[1]))
    if sys.argv[2:] == ["clear"]:
        make_cgroups_pure()
        machine.clear()
    else:
        machine.run()
