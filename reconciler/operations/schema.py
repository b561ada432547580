"""`schema`: the JSON Schema of a kind."""

from __future__ import annotations

from reconciler import shipped
from reconciler.model.problem import refuse
from reconciler.model.ref import KIND_WORDS
from reconciler.specs.read.suggest import did_you_mean


def schema(kind: str) -> str:
    """The JSON Schema of a kind, by its name in a document or its word in a ref."""
    word = KIND_WORDS.get(kind, kind)
    text = shipped.schemas().get(word)
    if text is None:
        raise refuse(
            "kind_unknown", f"no kind is called {kind!r}", did_you_mean(kind, KIND_WORDS, limit=20)
        )
    return text
