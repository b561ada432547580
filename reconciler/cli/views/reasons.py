"""Why a resource is as it is: one line a reason, and below it the place that says so."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.cli.text import TextLine, column, dim, line, strong
from reconciler.operations.links.case import SpecPlace
from reconciler.operations.why.why import Why

LABEL = 11


def lines(found: Why) -> Iterator[TextLine]:
    yield line(strong(found.ref))
    before = ""
    for link in found.links:
        label = link.about if link.about != before else ""
        before = link.about
        command = dim(f"   {link.command}") if link.command else ""
        yield line(dim(column(label, LABEL)), link.text, command, hang=LABEL)
        if link.place.file:
            yield line(column("", LABEL), dim(where(link.place)), hang=LABEL)


def where(place: SpecPlace) -> str:
    """`specs/a.yaml:3 in 3f9c2e1 by ana (signed)`."""
    at = f"{place.file}:{place.line}" if place.line else place.file
    origin = place.origin
    if not origin.commit:
        return f"{at}, not committed"
    signed = "signed" if origin.signed else "unsigned"
    return f"{at} in {origin.commit[:7]} by {origin.author} ({signed})"
