"""Features as text: what is built, and what documents may not use until it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from reconciler.cli.text import BLANK, TextLine, dim, line, strong
from reconciler.cli.views import tables
from reconciler.model.codec import encode
from reconciler.model.spec.features import Capability, Maturity


def row(one: Capability) -> Mapping[str, object]:
    encoded: dict[str, object] = encode(one)
    return encoded


def lines(found: Mapping[str, Capability], *, width: int) -> Iterator[TextLine]:
    rows = [(name, one.maturity.value, one.what) for name, one in found.items()]
    yield from tables.lines("FEATURE MATURITY WHAT", rows, width=width)
    gated = {name: one for name, one in found.items() if one.maturity is Maturity.DESIGNED}
    yield BLANK
    yield line(strong("REFUSED"), "  until it is built")
    for name, one in gated.items():
        yield line("  ", f"{name}: {', '.join(one.gates)}", dim(f" ({one.code})"), hang=4)
        if one.instead:
            yield line("    ", dim(one.instead), hang=4)
