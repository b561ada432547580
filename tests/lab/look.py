"""Runs in a session on a host: what it sees there, as one JSON document on standard output.

Standard library alone, as nothing else is there. It only looks.
"""

import errno
import glob
import json
import os


def opened(path: str) -> str:
    """`open`, or the name of the error that opening it gives."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "open"


def listed(path: str) -> list[str]:
    try:
        return sorted(os.listdir(path))
    except OSError as error:
        return [errno.errorcode[error.errno or 0]]


def owners() -> list[int]:
    """Of the processes that can be seen."""
    found = set()
    for folder in glob.glob("/proc/[0-9]*"):
        try:
            found.add(os.stat(folder).st_uid)
        except OSError:
            continue
    return sorted(found)


def shared_memory() -> list[int]:
    """Owners of the System V segments."""
    with open("/proc/sysvipc/shm", encoding="ascii") as file:
        head, *rows = (line.split() for line in file)
    return sorted({int(row[head.index("uid")]) for row in rows})


print(
    json.dumps(
        {
            "uid": os.getuid(),
            "groups": sorted(os.getgroups()),
            "umask": os.umask(0o077),
            "environment": dict(os.environ),
            "devices": {path: opened(path) for path in sorted(glob.glob("/dev/nvidia[0-9]*"))},
            "control": {path: opened(path) for path in ("/dev/nvidiactl", "/dev/nvidia-uvm")},
            "owners": owners(),
            "sysv": shared_memory(),
            "tmp": listed("/tmp"),
            "var-tmp": listed("/var/tmp"),
            "shm": listed("/dev/shm"),
            "homes": {path: listed(path) for path in ["/home", *glob.glob("/home/*")]},
        }
    )
)
