"""Bundles as text: versions, where they are installed, what hosts show, and who uses them."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator

from reconciler.cli.text import BLANK, Span, Style, TextLine, column, count, dim, line, strong
from reconciler.cli.views import tables
from reconciler.model.state.install import InstallState
from reconciler.operations.bundle.bundle import GONE, BundleRow, BundleShown, BundleStanding
from reconciler.operations.bundle.catalogue import BundleAdded, Catalogue
from reconciler.operations.bundle.mirror import Mirrored

LABEL = 11
TITLES = "BUNDLE VERSION SUPPORT STATE RUNS-ON NODES USED-BY"
NODE_TITLES = "NODE RECORDED SINCE SHOWN SEEN USED-BY"
STYLES = {
    "active": Style.GOOD,
    InstallState.STAGED.value: Style.GOOD,
    InstallState.FAILED.value: Style.BAD,
    GONE: Style.BAD,
}
UNKNOWN = "unknown"
MOST_USERS = 3
"""More than these are counted: `bundle show` has them all."""


def rows(found: Catalogue, *, width: int = 0) -> Iterator[TextLine]:
    table: list[tables.Row] = [
        (
            row.bundle,
            row.version,
            row.support_level,
            _toned(row.state),
            row.runs_on or UNKNOWN,
            _counted(row.nodes),
            _few([ref.removeprefix("allocation/") for ref in row.used_by]),
        )
        for row in found.bundles
    ]
    yield from tables.lines(TITLES, table, width=width, none="the fleet has no bundle")
    if found.shipped:
        offers: list[tables.Row] = [
            (one.display_name, ", ".join(one.versions), f"gpuaas bundle add {one.bundle}")
            for one in found.shipped
        ]
        yield BLANK
        yield from tables.lines("SHIPPED VERSIONS BY", offers, width=width)


def lines(found: BundleShown, *, width: int = 0) -> Iterator[TextLine]:
    first = found.versions[0]
    name = f" {first.display_name}" if first.display_name else ""
    yield line(strong(found.ref), f"  {name}   " if name else "   ", first.support_level)
    if found.file:
        commit, author = found.origin.commit, found.origin.author
        by = f" in {commit[:7]} by {author}" if commit else ", not committed"
        yield _fact("file", f"{found.file}:{found.line}{by}")
    if not found.is_applied:
        yield _fact("applied", "not as it stands there")
    yield _fact("support", found.support)
    for version in found.versions:
        yield BLANK
        yield from _version(version, width)


def added(found: BundleAdded) -> Iterator[TextLine]:
    name = found.ref.removeprefix("bundle/")
    if not found.versions:
        yield line(f"{found.file} has every version of {name} that travels with the program")
        return
    yield line(Span("added ", Style.GOOD), f"{name} {', '.join(found.versions)}", hang=2)
    yield _fact("written", f"{found.file}:{found.line}")
    for lock in found.locks:
        yield _fact("", lock)
    yield BLANK
    if found.commit:
        yield line(f"Committed as {found.commit[:7]}. Nothing has happened yet; to apply it:")
    else:
        yield line("Nothing has happened yet. Commit it, then apply:")
        yield line("  ", strong(shlex.join(("git", "add", "--", found.file, *found.locks))), hang=4)
        message = f"Add {name} {', '.join(found.versions)}"
        yield line("  ", strong(shlex.join(("git", "commit", "-m", message))), hang=4)
    yield line("  ", strong("gpuaas apply"))
    yield line(dim("It is staged where stageOn or an allocation's runtimes name it."))


def mirrored(found: Mirrored) -> Iterator[TextLine]:
    for one in found.versions:
        what = f"{one.bundle} {one.version}"
        size = f": {count(len(one.wheels), 'wheel')}, {one.mib} MiB"
        yield line(Span("mirrored ", Style.GOOD), what, size, hang=2)
    yield _fact("folder", found.folder)
    yield BLANK
    yield line("Nothing has happened on any host. Copy the folder to each one that builds from it,")
    yield line("and name it in gpuaas.yaml, with the place where hosts have it:")
    yield line("  ", strong(f"index: {{mirror: file://{found.folder}}}"))
    yield line("A version takes it from there with install.index: mirror.")


def _version(row: BundleRow, width: int) -> Iterator[TextLine]:
    yield line(strong(f"{row.bundle}@{row.version}"), "   ", _toned(row.state))
    yield _fact("runs on", row.runs_on or UNKNOWN)
    if row.lock:
        where = f", from index {row.index}" if row.index else ""
        yield _fact(
            "made from", f"{row.lock} ({row.lock_digest[:19]}…), Python {row.python}{where}"
        )
    yield _fact("tried by", _trial(row))
    table = [_node(one) for one in row.nodes]
    yield from tables.lines(NODE_TITLES, table, width=width, none="no node has it or wants it")


def _trial(row: BundleRow) -> str:
    imports = f"importing {', '.join(row.imports)}" if row.imports else "nothing"
    return f"{imports}; not on a GPU, as it asks to be" if row.asks_for_gpu else imports


def _node(one: BundleStanding) -> tables.Row:
    default = " (the host's default)" if one.is_current else ""
    return (
        f"{one.node}{default}",
        _toned(one.state or "wanted"),
        one.since,
        _shown(one),
        one.observed_at,
        ", ".join(ref.removeprefix("allocation/") for ref in one.used_by),
    )


def _shown(one: BundleStanding) -> Span:
    """What the host shows; of what is as recorded no more than that."""
    if one.shown is None:
        return Span(UNKNOWN, Style.WARN)
    if one.agrees:
        problem = f": {one.problem}" if one.problem else ""
        return Span(f"the same{problem}", Style.GOOD if not problem else Style.BAD)
    return Span(one.shown or "nothing", Style.WARN if one.agrees is None else Style.BAD)


def _counted(nodes: tuple[BundleStanding, ...]) -> str:
    states = Counter(one.state or "wanted" for one in nodes)
    differ = sum(one.agrees is False for one in nodes)
    told = [f"{number} {state}" for state, number in sorted(states.items())]
    return " · ".join([*told, *([f"{differ} shown otherwise"] if differ else [])])


def _few(names: list[str]) -> str:
    shown = names if len(names) <= MOST_USERS else names[: MOST_USERS - 1]
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return ", ".join(shown) + more


def _toned(state: str) -> Span:
    return Span(state, STYLES.get(state, Style.WARN))


def _fact(label: str, text: str) -> TextLine:
    return line(dim(column(label, LABEL)), text, hang=LABEL)
