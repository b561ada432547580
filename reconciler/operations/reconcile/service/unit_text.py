"""Text of systemd units: foreign text stays one line or word, and expands to nothing.

See systemd.syntax(7) and systemd.service(5).
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
