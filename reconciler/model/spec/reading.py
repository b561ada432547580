"""Reading: what an invalid document says about whom it lets in.

A document with an error gives nobody anything. What it takes away it takes all the same.
"""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.model.records import dataclass
from reconciler.model.spec.resource import Resource
from reconciler.model.state.world import Recorded

LETS_IN = frozenset({"allocation", "grant", "project", "user"})
"""Kinds whose documents decide who may log in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """`spec` is of the kind's own form where the document is `whole`, and as written elsewhere.

    What a whole document does not state it does not want. One that counts `only_there` says
    something of what was applied from `file`, and of nothing else.
    """

    file: str
    spec: Mapping[str, object]
    whole: bool = False
    only_there: bool = False


def whole(stated: Resource | Recorded, *, only_there: bool = False) -> Reading:
    """What a document says, or said, that its schema took."""
    spec: Mapping[str, object] = stated.normal["spec"]
    return Reading(file=stated.file, spec=spec, whole=True, only_there=only_there)
