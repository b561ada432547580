"""Progress of a run, one line a host: drawn in place on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from reconciler.cli.screen import Screen
from reconciler.cli.text import column, escape, line, pad
from reconciler.model.plan.work import HostProgress

STYLES = {"done": "green", "failed": "bold red"}
ENDED = frozenset(STYLES)
STOPPING = (
    "stopping: hosts finish what they do now, and that is written down; nothing new begins;"
    " once more ends it at once"
)
ENDING = "ending at once: what hosts were doing is unknown until the next apply looks at them"
MOST_ROWS = 16
"""More hosts than this at a time are counted, not listed: failed and running ones come first."""


class ProgressView:
    """`report` may be called from other threads; nothing is shown outside the `with` block."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._hosts: dict[str, HostProgress] = {}
        self._live: Live | None = None
        self._wish = ""

    def __enter__(self) -> Callable[[HostProgress], None]:
        return self.report

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def report(self, progress: HostProgress) -> None:
        before = self._hosts.get(progress.node)
        self._hosts[progress.node] = progress
        if not self._screen.is_live:
            if progress != before:
                text = f"{pad(progress.phase, 9)} {progress.detail}".rstrip()
                self._screen.tell([line(column(progress.node, 16), text)])
        elif self._live is None:
            self._live = self._start()

    def wish(self, forced: bool) -> None:
        """Somebody wants it to end. May be called by a handler of signals."""
        self._wish = ENDING if forced else STOPPING
        if self._live is None:
            self._screen.call_out(self._wish)

    def _start(self) -> Live:
        """Drawing begins with the first word of a host: a question may come before it."""
        console = Console(file=self._screen.notes, highlight=False, no_color=not self._screen.color)
        live = Live(console=console, refresh_per_second=8, get_renderable=self._table)
        live.start()
        return live

    def _table(self) -> Table:
        rows = sorted(self._hosts.values(), key=_urgency)
        table = Table.grid(padding=(0, 2))
        for row in rows[:MOST_ROWS]:
            style = STYLES.get(row.phase, "cyan")
            cells = (Text(escape(row.node)), Text(row.phase, style), Text(escape(row.detail)))
            table.add_row(*cells)
        ended = sum(row.phase in ENDED for row in rows)
        table.add_row(Text(f"{ended} of {len(rows)} hosts"), Text(""), Text(self._wish))
        return table


def _urgency(row: HostProgress) -> tuple[int, str]:
    return (("failed", "done").index(row.phase) * 2 if row.phase in ENDED else 1, row.node)
