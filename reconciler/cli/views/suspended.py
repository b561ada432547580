"""A suspension as text: what is in force now, and which hosts show it already."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from reconciler.cli.text import TextLine, count, dim, line, strong
from reconciler.cli.views import problems as problems_view
from reconciler.model.state.world import Suspension

if TYPE_CHECKING:
    from reconciler.operations.access.suspension import Suspended


def lines(found: Suspended, *, over: bool = False) -> Iterator[TextLine]:
    until = f"until {found.until}" if found.until else f"until gpuaas resume {found.scope}"
    yield line(strong(found.scope), " is in use again" if over else f" is suspended {until}")
    if found.done:
        hosts = f"{count(len(found.done), 'allocation')} changed on the hosts: "
        yield line("  ", dim(hosts), ", ".join(found.done), hang=4)
    yield from problems_view.lines(found.problems)
    if found.problems:
        yield line("  what is not done there yet is done by the next apply", hang=2)


def told(one: Suspension) -> str:
    """One that is in force, wherever it is shown: what, by whom, until when and why."""
    until = f" until {one.until}" if one.until else ""
    return f'{one.scope} by {one.actor}{until} "{one.reason}"'
