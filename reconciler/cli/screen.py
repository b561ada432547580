"""The screen: the only writer of standard output and standard error.

Standard output carries the answer alone; notes, questions and progress go to standard error.
"""

from __future__ import annotations

import errno
import io
import json
import os
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TextIO, cast

from reconciler.cli.text import SYMBOLS, TextLine, render
from reconciler.model.problem import refuse

PROBE = "·≠…×→≤"


class Screen:
    """Never fails for a character that the output cannot encode, nor for a reader that left.

    Standard error never fails at all: nothing that was begun ends because nobody watches it.
    """

    def __init__(self, *, color: bool = True) -> None:
        self._out = _tolerant(sys.stdout)
        self._err = _tolerant(sys.stderr)
        self._to_person = _is_terminal(self._out)
        self.color = color and not os.environ.get("NO_COLOR")
        self.left = False
        """Whether the reader of standard output went away."""

    def show(self, lines: Iterable[TextLine]) -> None:
        """Lines of the answer."""
        self._write(self._out, self._rendered(lines, self._out))

    def tell(self, lines: Iterable[TextLine]) -> None:
        """Lines about the answer, for the person who watches."""
        self._write(self._err, self._rendered(lines, self._err))

    def document(self, value: object, *, compact: bool = False) -> None:
        """One JSON document: pure ASCII, whatever the locale and whatever a spec holds."""
        self._write(self._out, json.dumps(value, indent=None if compact else 2) + "\n")

    def raw(self, text: str) -> None:
        """Text that is the answer itself: a schema, a completion script, Markdown."""
        self._write(self._out, text if text.endswith("\n") else text + "\n")

    def call_out(self, text: str) -> None:
        """A line to the person, even in the midst of another one: for handlers of signals."""
        with suppress(OSError, ValueError):
            if self._err is not None:
                start = "\n" if _is_terminal(self._err) else ""
                os.write(self._err.fileno(), f"{start}{text}\n".encode())

    def ask(self, question: TextLine) -> str:
        """A line typed by a person, '' at the end of input. Only where `can_ask`."""
        self._write(self._err, self._rendered([question], self._err).removesuffix("\n") + " ")
        try:
            return sys.stdin.readline().strip()
        except OSError:
            return ""

    def answer(self, question: TextLine) -> str:
        """A line typed by a person, whatever bytes it is made of: those that are no text come as
        lone surrogates. Only where `can_ask`.

        Raises EOFError at the end of input, where nobody answers any more.
        """
        self._write(self._err, self._rendered([question], self._err).removesuffix("\n") + " ")
        with suppress(io.UnsupportedOperation):
            # Only before anything was read of it; it then stays as it was made. What is no text in
            # the encoding of the terminal stays none: escapes would pass for what was typed.
            if isinstance(sys.stdin, io.TextIOWrapper):
                sys.stdin.reconfigure(errors="surrogateescape")
        try:
            said = sys.stdin.readline()
        except OSError as error:
            raise EOFError from error
        if not said:
            self._write(self._err, "\n")
            raise EOFError
        return said.strip()

    @property
    def notes(self) -> TextIO:
        """Standard error for those who write to a file."""
        return cast(TextIO, _Notes(self._err, self._write))

    @property
    def can_ask(self) -> bool:
        """A question needs a person: one terminal to read from and one to write to."""
        return _is_terminal(sys.stdin) and _is_terminal(self._err)

    @property
    def can_converse(self) -> bool:
        """Whether questions may be asked one after the other: the answer is read there, too."""
        return self.can_ask and self._to_person

    @property
    def is_live(self) -> bool:
        """Whether progress may be drawn in place."""
        return _is_terminal(self._err) and os.environ.get("TERM") != "dumb"

    @property
    def width(self) -> int:
        """Columns of the terminal that shows the answer; 0 where lines must not be broken."""
        return _columns(self._out)

    def _rendered(self, lines: Iterable[TextLine], stream: TextIO | None) -> str:
        color = self.color and _is_terminal(stream)
        width = _columns(stream)
        text = "".join(f"{render(one, width=width, color=color)}\n" for one in lines)
        return text if _encodes(stream, PROBE) else text.translate(SYMBOLS)

    def _write(self, stream: TextIO | None, text: str) -> None:
        if stream is None or (stream is self._out and self.left):
            return
        try:
            stream.write(text)
            stream.flush()
        except OSError as error:
            silence(stream)
            if stream is self._err:
                return
            # A terminal that was closed answers by an error of the device.
            gone = (errno.EPIPE, errno.EIO) if self._to_person else (errno.EPIPE,)
            if error.errno not in gone:
                raise refuse(
                    "output_unwritable", f"the output cannot be written: {error.strerror}"
                ) from error
            self.left = True


class _Notes(io.TextIOBase):
    """A stream, written to by whoever never fails."""

    def __init__(self, stream: TextIO | None, write: Callable[[TextIO | None, str], None]) -> None:
        self._stream = stream
        self._write = write

    def write(self, text: str) -> int:
        self._write(self._stream, text)
        return len(text)

    def isatty(self) -> bool:
        return _is_terminal(self._stream)

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return getattr(self._stream, "encoding", "") or "utf-8"


def silence(stream: TextIO | None) -> None:
    """Let what is still buffered go nowhere, so that Python's own end stays quiet."""
    if stream is None:
        return
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        return


def _tolerant(stream: TextIO | None) -> TextIO | None:
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
    return stream


def _encodes(stream: TextIO | None, text: str) -> bool:
    try:
        text.encode(getattr(stream, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:
        return False


def _columns(stream: TextIO | None) -> int:
    """COLUMNS, else what the terminal says; 0 for anything that is no terminal."""
    if stream is None or not _is_terminal(stream):
        return 0
    stated = os.environ.get("COLUMNS", "")
    if stated.isdecimal() and int(stated):
        return int(stated)
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80
