"""Confirmation: something is shown, and a person at a terminal agrees, or agreed beforehand."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from reconciler.cli.command import Session
from reconciler.cli.text import BLANK, TextLine, line
from reconciler.model.problem import refuse


def key_confirmation(session: Session, address: str) -> Callable[[tuple[str, ...]], bool]:
    """Shows each host key on a line and asks a person at a terminal.

    Without a terminal nobody confirms.
    """

    def confirm(keys: tuple[str, ...]) -> bool:
        screen = session.screen
        screen.tell(_shown(address, keys))
        question = line("Does the host's own console show the same? [yes/no]")
        return screen.can_ask and screen.ask(question) == "yes"

    return confirm


def _shown(address: str, keys: tuple[str, ...]) -> list[TextLine]:
    head = line(f"{address} shows keys that nobody here has seen before:")
    check = line("compare, on its console: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub")
    return [head, *(line(f"  {key}") for key in keys), check]


def agreement(
    session: Session, view: Callable[[Any], Iterable[TextLine]], question: str, *, yes: bool
) -> Callable[[object], bool]:
    """Shows what it is called with, and answers whether to go on.

    Raises ProblemError `nobody_to_ask` where no person can answer.
    """

    def agreed(shown: object) -> bool:
        screen = session.screen
        tell = screen.tell if session.wants_document else screen.show
        tell(view(shown))
        if yes:
            return True
        if not screen.can_ask:
            raise refuse(
                "nobody_to_ask",
                "this needs a yes, and there is no terminal to ask on",
                "say it beforehand: --yes",
            )
        screen.tell([BLANK])
        return screen.ask(line(f"{question} [yes/no]")).lower() in ("y", "yes")

    return agreed
