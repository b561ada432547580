#!/usr/bin/python3 -I
"""Opens to each tenant its own GPUs and nobody else's; managed by gpuaas.

Tenants are given UUIDs, but the kernel filters by minor numbers, which may be others after a
reboot: they are worked out anew before anybody can log in. If that fails there is no GPU.

Without arguments for all tenants, else for these uids alone. With `--no-reload` first, whoever
calls tells systemd about it.
"""

import fcntl
import json
import os
import re
import subprocess
import sys
from pathlib import Path

GIVEN = Path("/etc/gpuaas/devices")
UNITS = Path("/run/systemd/system")
LOCK = "/run/gpuaas-devices.lock"
NODE = "/dev/nvidia"
SHARED = ("/dev/nvidiactl", "/dev/nvidia-uvm")
SECONDS = 30
LEAF = re.compile(r"<(uuid|minor_number)>([^<>]*)</\1>")


def main() -> None:
    told = sys.argv[1:]
    takes_up = told[:1] != ["--no-reload"]
    named = set(told if takes_up else told[1:])
    if not all(uid.isdigit() for uid in named):
        sys.exit("uids of tenants, or nothing")
    with open(os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), "w") as lock:
        # A tenant who could open it could hold it, and with it everybody's cards.
        os.fchmod(lock.fileno(), 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        given = read_given()
        uids = named or set(given) | written()
        minors = read_minors({uuid for uid in uids for uuid in given.get(uid, [])})
        rules = {uid: rules_of(given.get(uid, []), given, minors) for uid in sorted(uids)}
        changed = [put(uid, text) for uid, text in rules.items()]
        if any(changed) and takes_up:
            subprocess.run(["/usr/bin/systemctl", "daemon-reload"], check=True, timeout=SECONDS)
    if without := [uid for uid in rules if uid in given and not rules[uid]]:
        sys.exit(f"no GPU for {', '.join(without)}: not all of theirs answer")


def read_given() -> dict[str, list[str]]:
    """Uid → UUIDs, as they were given."""
    return {
        path.stem: [str(uuid) for uuid in json.loads(path.read_text())["uuids"]]
        for path in GIVEN.glob("*.json")
        if path.stem.isdigit()
    }


def written() -> set[str]:
    paths = UNITS.glob("user-*.slice.d/70-gpuaas-devices.conf")
    return {path.parent.name[len("user-") : -len(".slice.d")] for path in paths}


def read_minors(wanted: set[str]) -> dict[str, int]:
    """UUID → minor of every card that answers.

    A dead one may cut the whole answer short; then each of the others still answers alone.
    """
    minors = ask() if wanted else {}
    for uuid in sorted(wanted - set(minors)):
        # What is said of any other card in there, a process of this one may have for a name.
        minors.update({told: minor for told, minor in ask("-i", uuid).items() if told == uuid})
    numbers = list(minors.values())
    return {uuid: minor for uuid, minor in minors.items() if numbers.count(minor) == 1}


def ask(*which: str) -> dict[str, int]:
    """However it ends: a lost card, or a damaged one, is no success, and the others are told."""
    try:
        told = subprocess.run(
            ["/usr/bin/nvidia-smi", "-q", "-x", *which],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            check=False,
            timeout=SECONDS,
        )
    except (OSError, subprocess.SubprocessError) as error:
        sys.stderr.write(f"nvidia-smi: {error}\n")
        return {}
    if told.returncode != 0:
        sys.stderr.write(f"nvidia-smi ended with {told.returncode}\n")
    return minors_in(told.stdout)


def minors_in(answer: str) -> dict[str, int]:
    """Line by line: names of processes stand in it as their owners chose them.

    So nothing of a card counts that stands after its processes, and of a card or a minor that is
    told of twice, nothing counts at all.
    """
    pairs: list[tuple[str, str]] = []
    card: dict[str, str] | None = None
    for line in map(str.strip, answer.split("\n")):
        if re.fullmatch(r'<gpu id="[^"<>]*">', line):
            card = {}
        elif line in ("<processes>", "</gpu>") and card is not None:
            pairs.append((card.get("uuid", ""), card.get("minor_number", "")))
            card = None
        elif card is not None and (leaf := LEAF.fullmatch(line)):
            card.setdefault(leaf.group(1), leaf.group(2))
    numbers = [(uuid, int(minor)) for uuid, minor in pairs if re.fullmatch("[0-9]{1,4}", minor)]
    uuids, minors = [uuid for uuid, _ in pairs], [minor for _, minor in numbers]
    return {uuid: minor for uuid, minor in numbers if uuids.count(uuid) == minors.count(minor) == 1}


def rules_of(uuids: list[str], given: dict[str, list[str]], minors: dict[str, int]) -> str:
    """Nothing at all where a card is not known, has no device node, or is somebody else's too."""
    others = [uuid for one in given.values() for uuid in one]
    nodes = [f"{NODE}{minors[uuid]}" for uuid in uuids if uuid in minors]
    sound = all(others.count(uuid) == 1 for uuid in uuids) and all(map(os.path.exists, nodes))
    if not sound or not nodes or len(nodes) != len(uuids):
        return ""
    return "[Slice]\n" + "".join(f"DeviceAllow={node} rw\n" for node in (*SHARED, *sorted(nodes)))


def put(uid: str, text: str) -> bool:
    """Whether anything had to be written or removed."""
    path = UNITS / f"user-{uid}.slice.d" / "70-gpuaas-devices.conf"
    before = path.read_text() if path.exists() else ""
    if before == text:
        return False
    if not text:
        path.unlink()
        return True
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    fresh.replace(path)
    return True


if __name__ == "__main__":
    main()
