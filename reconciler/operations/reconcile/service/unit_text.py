"""Text of systemd units: what comes from somewhere else is one line, or one word, and expands to
nothing (systemd.syntax(7), systemd.service(5)).
"""

from __future__ import annotations

from reconciler.model.problem import refuse


def unit_word(text: str) -> str:
    """One word of a command line of systemd's: nothing in it is expanded or split."""
    escaped = unit_line(text).replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    return f'"{escaped}"'


def unit_line(text: str) -> str:
    """A line of a unit is one line, and `%` begins what systemd puts in.

    Raises ProblemError `unit_unsound` for what cannot stand in one.
    """
    if not text.isprintable():
        raise refuse(
            "unit_unsound",
            f"{text!r} cannot stand in a unit of systemd",
            "give the folder or the file another name",
        )
    return text.replace("%", "%%")
