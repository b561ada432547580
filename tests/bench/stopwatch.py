"""Runs one command and tells its time and peak memory; itself small, so that nothing of it counts.

A child inherits the peak of the process that forks it, hence a process of its own: started by
`python -I -S`, it imports almost nothing.
"""

import os
import sys
import time


def main() -> None:
    command = sys.argv[1:]
    started = time.perf_counter()
    child = os.fork()
    if child == 0:
        try:
            os.execvp(command[0], command)
        finally:
            os._exit(127)
    _, status, usage = os.wait4(child, 0)
    seconds = time.perf_counter() - started
    code = os.waitstatus_to_exitcode(status)
    cpu = usage.ru_utime + usage.ru_stime
    os.write(3, f"{seconds} {cpu} {usage.ru_maxrss} {code}\n".encode())


main()
