"""`python -m tests.docs.render_verbs` writes docs/reference/verbs.md from the closed list."""

from __future__ import annotations

from pathlib import Path

from reconciler.hosts.verbs import VERBS

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "verbs.md"

HEAD = """# Verbs

Verbs are the only requests that a host accepts. No verb takes a command, and there is no generic
shell. A host answers with a receipt for each item. Facts that the observe code reads afterwards,
in a separate call, decide whether it was done.

Made from `reconciler/hosts/contracts` by `python -m tests.docs.render_verbs`; a test keeps it
current.
"""


def render() -> str:
    parts = [HEAD]
    for name, verb in VERBS.items():
        parts.append(f"## `{name}`\n\n{verb.summary}\n")
        if verb.item:
            parts.append("| key of an item | meaning |\n|---|---|")
            parts += [f"| `{key}` | {meaning} |" for key, meaning in verb.item.items()]
            parts.append("")
        parts.append(f"Evidence: {verb.evidence}.\n\nRefuses: {'; '.join(verb.refuses)}.\n")
    return "\n".join(parts).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
