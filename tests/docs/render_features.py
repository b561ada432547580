"""`python -m tests.docs.render_features` writes docs/reference/features.md from the features."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from reconciler.model.spec.features import FEATURES, Maturity

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "features.md"

HEAD = """# Features

Made from the list in the program by `python -m tests.docs.render_features`; a test keeps it
current. `gpuaas features` says the same. A *designed* feature is known to the schemas but not
built: documents that state it are refused.

| feature | maturity | description |
|---|---|---|
"""

GATES = """
## Refused until it is built

| feature | refused statements | code | instead |
|---|---|---|---|
"""


def render() -> str:
    rows = [f"| `{name}` | {one.maturity} | {one.what} |" for name, one in FEATURES.items()]
    gates = [
        f"| `{name}` | {_words(one.gates)} | `{one.code}` | {one.instead} |"
        for name, one in FEATURES.items()
        if one.maturity is Maturity.DESIGNED
    ]
    return HEAD + "\n".join(rows) + "\n" + GATES + "\n".join(gates) + "\n"


def _words(gates: Iterable[str]) -> str:
    return ", ".join(f"`{gate}`" for gate in gates)


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
