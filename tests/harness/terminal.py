"""A real terminal: a command at a pseudo terminal of some size, as a person sees and answers it."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pexpect

PROGRAM = (sys.executable, "-c", "from reconciler.cli.main import main; main()")
CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
OWN, BACK = "\x1b[?1049h", "\x1b[?1049l"
"""Into a screen of its own, and back to the one that was there."""

ASKED = re.compile(r"(?:: |\[yes/no\] )$")
SECONDS = 60
REST_SECONDS = 0.005


class Terminal:
    """`shown` is everything since the start, as it was sent; `output` is where answers go."""

    def __init__(
        self,
        folder: Path,
        *words: str,
        columns: int = 80,
        rows: int = 24,
        output: str = "/dev/tty",
        **env: str,
    ) -> None:
        self.shown = ""
        self._child = pexpect.spawn(
            "/bin/sh",
            ["-c", f'exec "$@" > {output}', "sh", *PROGRAM, *words],
            cwd=str(folder),
            dimensions=(rows, columns),
            env={**_surroundings(), "TERM": "xterm-256color", **env},
            encoding="utf-8",
            codec_errors="backslashreplace",
            timeout=SECONDS,
        )

    def wait_for_question(self) -> str:
        """What was shown since the last answer.

        A page arrives in parts, and one may end as a question does: it is none before the command
        sleeps and nothing more has come.
        """
        while True:
            self._child.expect(ASKED)
            said: str = self._child.before + self._child.after
            asleep, more = self._is_asleep(), self._more()
            if asleep and not more:
                self.shown += said
                return said
            self._put_back(said + more)
            time.sleep(REST_SECONDS)

    def _put_back(self, text: str) -> None:
        """To be searched again: pexpect searches one buffer, and tells of another what came
        before.
        """
        self._child.buffer = text
        self._child._before = self._child.buffer_type()
        self._child._before.write(text)

    def _is_asleep(self) -> bool:
        stat = Path(f"/proc/{self._child.pid}/stat").read_text(encoding="utf-8")
        return stat.rpartition(")")[2].split()[0] == "S"

    def _more(self) -> str:
        try:
            said: str = self._child.read_nonblocking(size=65536, timeout=0)
        except pexpect.TIMEOUT:
            return ""
        return said

    def wait_for(self, text: str) -> None:
        self._child.expect_exact(text)
        self.shown += self._child.before + self._child.after

    def kill(self, number: int) -> None:
        """A signal to the command alone, as nobody types it."""
        self._child.kill(number)

    def say(self, text: str) -> None:
        self._child.sendline(text)

    def hang_up(self) -> None:
        self._child.close(force=True)

    def answer(self, *texts: str) -> None:
        for text in texts:
            self.wait_for_question()
            self.say(text)

    def press(self, key: str) -> None:
        self._child.sendcontrol(key)

    def send(self, data: bytes) -> None:
        os.write(self._child.child_fd, data)

    def end(self) -> int:
        """The exit code, once there is nothing more to read."""
        self._child.expect(pexpect.EOF)
        self.shown += self._child.before
        self._child.close()
        return int(self._child.exitstatus if self._child.exitstatus is not None else -1)

    @property
    def lines(self) -> Sequence[str]:
        """What was shown, without what steers the terminal."""
        return CODES.sub("", self.shown).replace("\r", "").split("\n")

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def _surroundings() -> Mapping[str, str]:
    """Without a size that somebody states: that of the terminal counts."""
    return {name: said for name, said in os.environ.items() if name not in ("COLUMNS", "LINES")}
