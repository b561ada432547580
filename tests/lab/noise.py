"""Noise: what a hostile tenant does to a host from within, all at once, until a moment is over.

Run on the host by a tenant, with the standard library alone: `python3 -I - SECONDS OTHER…`, where
the others are addresses of neighbours on the loopback. Each sort is a process of its own. It is
bounded in what it holds, since the lab shares its kernel with the machine, and never in how often.
"""

import array
import ctypes
import os
import random
import resource
import shutil
import signal
import socket
import sys
import time
from contextlib import suppress

UNTIL = time.monotonic() + float(sys.argv[1])
OTHERS = sys.argv[2:]
HELD, BREATH = 4000, 0.02
LIBC = ctypes.CDLL(None, use_errno=True)
ADD_KEY = 248
PLACES = ("/run/lock", "/dev/shm", "/tmp", "/var/tmp", os.path.expanduser("~"))


def connections():
    """Nothing is said, and each stays for as long as sshd lets it."""
    targets = ["127.0.0.1", "127.9.9.9", "::1", *OTHERS]
    held = []
    for number in range(150):
        with suppress(OSError):
            held.append(socket.create_connection((targets[number % len(targets)], 22), timeout=1))
    time.sleep(2)
    for one in held:
        one.close()


def files():
    for place in PLACES:
        with suppress(OSError):
            folder = f"{place}/noise-{os.getuid()}"
            os.makedirs(folder, exist_ok=True)
            os.chmod(folder, 0o777)
            for number in range(200):
                with open(f"{folder}/{number}", "wb") as file:
                    file.write(os.urandom(512))
            shutil.rmtree(folder, ignore_errors=True)


def folders():
    """Deep, and gone before whoever walks them has come to the end."""
    top = os.path.expanduser("~/deep")
    with suppress(OSError):
        path = top
        for _ in range(60):
            path += "/d"
        os.makedirs(path, exist_ok=True)
        os.rename(top, f"{top}-{random.randrange(9)}")
    for number in range(9):
        shutil.rmtree(f"{top}-{number}", ignore_errors=True)


def queues():
    with suppress(AttributeError):
        for number in range(40):
            name = f"/noise-{os.getuid()}-{number}".encode()
            place = LIBC.mq_open(name, os.O_CREAT | os.O_RDWR, 0o600, None)
            if place >= 0:
                LIBC.mq_unlink(name)
                os.close(place)
    for key in range(1, 9):
        number = LIBC.shmget(os.getuid() * 100 + key, 4096, 0o1600)
        if number >= 0:
            LIBC.shmctl(number, 0, None)


def descriptors():
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    held = []
    with suppress(OSError):
        held.extend(os.open("/dev/null", os.O_RDONLY) for _ in range(HELD))
    time.sleep(1)
    for one in held:
        os.close(one)


def flights():
    """Descriptors on their way from one end of a socket to the other."""
    ends = [socket.socketpair() for _ in range(20)]
    with open("/dev/null", "rb") as file:
        for one, _ in ends:
            rights = array.array("i", [file.fileno()])
            one.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
    time.sleep(0.5)
    for pair in ends:
        for one in pair:
            one.close()
    # Where somebody's are always on their way, nothing that is released beside them is ever proved.
    time.sleep(random.uniform(0, 20))


def children():
    """Many, of short life, that heed no polite word."""
    for _ in range(20):
        with suppress(OSError):
            if os.fork() == 0:
                for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                    signal.signal(number, signal.SIG_IGN)
                os.setsid()
                time.sleep(random.uniform(0.1, 2))
                os._exit(0)
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def keys():
    for number in range(20):
        told = f"noise-{number}".encode()
        LIBC.syscall(ADD_KEY, b"user", told, b"x" * 64, ctypes.c_size_t(64), -4)


def listeners():
    held = []
    for address in (*OTHERS, "127.0.0.1", "0.0.0.0"):
        for port in (8888, 8889):
            with suppress(OSError):
                one = socket.socket()
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                one.bind((address, port))
                one.listen()
                held.append(one)
    time.sleep(1)
    for one in held:
        one.close()


SORTS = (connections, files, folders, queues, descriptors, flights, children, keys, listeners)


def main():
    print("open", flush=True)
    for sort in SORTS:
        if os.fork() == 0:
            while time.monotonic() < UNTIL:
                with suppress(Exception):
                    sort()
                time.sleep(BREATH)
            os._exit(0)
    for _ in SORTS:
        with suppress(ChildProcessError):
            os.wait()


main()
