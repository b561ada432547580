"""How hosts are broken, and mended again: each `with` ends with the host as it was.

All of it is done at the console, since most of it shuts out whoever would come by ssh.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread

from tests.lab.console import console, until
from tests.lab.host import Host

WEDGE = """
mv {program} {program}.real
cat > {program} <<'X'
#!/bin/sh
case "$1" in {when})
    touch /run/wedged
    while [ -e /run/wedge ]; do sleep 0.05; done;;
esac
exec {program}.real "$@"
X
chmod 755 {program}; rm -f /run/wedged; touch /run/wedge
"""
UNWEDGE = "rm -f /run/wedge; mv {program}.real {program}"


@contextmanager
def wedged(host: Host, program: str, then: Callable[[], object], when: str = "*") -> Iterator[None]:
    """The program of the host stops at its beginning, and `then` is done while it stands still.

    It goes on when the host has started anew, or at the end.
    """
    console(host, WEDGE.format(program=program, when=when))

    def wait() -> None:
        until(host, "test -e /run/wedged")
        then()

    watcher = Thread(target=wait, daemon=True)
    watcher.start()
    try:
        yield
        watcher.join()
    finally:
        if host.is_on():
            console(host, UNWEDGE.format(program=program))


DEAF = """
import socket, sys
listening, heard = socket.create_server(("", 22)), []
while True:
    heard.append(listening.accept()[0])
    heard[-1].sendall(sys.argv[1].encode())
"""


@contextmanager
def deaf(host: Host, banner: str = "") -> Iterator[None]:
    """Port 22 takes every connection, says this or nothing, and is never heard of again."""
    console(
        host,
        f"systemctl stop ssh; pkill -x sshd-session || true; cat > /run/deaf.py <<'X'\n{DEAF}\nX\n"
        f"systemd-run --quiet --collect --unit=deaf python3 /run/deaf.py '{banner}'",
    )
    try:
        yield
    finally:
        console(host, "systemctl stop deaf; systemctl start ssh")


@contextmanager
def login_takes(host: Host, seconds: int) -> Iterator[None]:
    """PAM keeps everybody waiting."""
    waits = f"account required pam_exec.so /bin/sleep {seconds}"
    console(host, f"cp -p /etc/pam.d/sshd /opt/pam-sshd; sed -i '1i {waits}' /etc/pam.d/sshd")
    try:
        yield
    finally:
        console(host, "mv /opt/pam-sshd /etc/pam.d/sshd; pkill -x sleep || true")


@contextmanager
def shell_hangs(host: Host) -> Iterator[None]:
    """Who works on the host comes in, and no further."""
    stuck = "printf '#!/bin/sh\\nexec sleep 600\\n' > /opt/stuck; chmod 755 /opt/stuck"
    console(host, f"{stuck}; usermod --shell /opt/stuck gpuaas")
    try:
        yield
    finally:
        console(host, "usermod --shell /bin/bash gpuaas; pkill -x sleep || true")


@contextmanager
def another_machine(host: Host) -> Iterator[None]:
    console(host, "cp /etc/machine-id /run/id; tr 0-9a-f 1-9a-f0 < /run/id > /etc/machine-id")
    try:
        yield
    finally:
        console(host, "cat /run/id > /etc/machine-id")


@contextmanager
def another_key(host: Host) -> Iterator[None]:
    keys = "mkdir -p /opt/keys; mv /etc/ssh/ssh_host_* /opt/keys; ssh-keygen -qA"
    console(host, f"{keys}; systemctl restart ssh")
    try:
        yield
    finally:
        console(host, "rm /etc/ssh/ssh_host_*; mv /opt/keys/* /etc/ssh; systemctl restart ssh")


FULL = """
mkdir -p /run/copy; cp -a {folder}/. /run/copy
mount -t tmpfs -o {size} full {folder}
cp -a /run/copy/. {folder}; rm -r /run/copy
chmod --reference=/run {folder}
{fill}
"""
BLOCKS = "dd if=/dev/zero of={folder}/.fill bs=4k 2> /dev/null || true; sync -f {folder}"
INODES = "n=0; while touch {folder}/.fill$n 2> /dev/null; do n=$((n + 1)); done"


@contextmanager
def full(host: Host, folder: str) -> Iterator[None]:
    """What is in the folder stays, on a file system on which there is room for nothing more.

    What is written there meanwhile, in the place of other files, is gone afterwards.
    """
    fill = BLOCKS.format(folder=folder)
    with _mounted(host, FULL.format(folder=folder, size="size=16m", fill=fill), folder):
        yield


@contextmanager
def without_inodes(host: Host, folder: str) -> Iterator[None]:
    """Likewise; there is room, but not for one more file."""
    fill = INODES.format(folder=folder)
    with _mounted(host, FULL.format(folder=folder, size="nr_inodes=2000", fill=fill), folder):
        yield


@contextmanager
def read_only(host: Host, folder: str) -> Iterator[None]:
    script = f"mount --bind {folder} {folder}; mount -o remount,ro,bind {folder}"
    with _mounted(host, script, folder):
        yield


@contextmanager
def _mounted(host: Host, script: str, folder: str) -> Iterator[None]:
    console(host, script)
    try:
        yield
    finally:
        console(host, f"umount --lazy {folder}")
