"""Long inputs that the spec loader once answered wrongly, made; each is called by what was wrong.

Short ones stand as files in `regressions/`.
"""

from __future__ import annotations

from collections.abc import Mapping

HEAD = "apiVersion: gpuaas/v1\nkind: Allocation\nmetadata: {name: a, project: vision}\n"
SPEC = f"{HEAD}spec:\n  sku: x\n  owner: ana\n"
NEEDLESS = ", ".join(f"k{number}: 1" for number in range(2000))
ONE_LINE = f"{HEAD}spec: {{sku: x, owner: ana, {NEEDLESS}}}\n"

SPEC_FILES: Mapping[str, str] = {
    "end-of-a-file-without-a-last-break": ONE_LINE[:8192],
    "entries-compared-each-with-each": (
        SPEC + f"  access: [{','.join(f'{{a: {n}}}' for n in range(3000))}]\n"
    ),
    "entries-of-two-sorts-compared-each-with-each": (
        SPEC + f"  access: [{','.join(f'{n},a{n}' for n in range(1500))}]\n"
    ),
    "long-text-behind-many-aliases": (
        SPEC + f"  access:\n  - &a {'x' * 16384}\n" + "  - *a\n" * 2000
    ),
    "many-problems-in-one-long-line": ONE_LINE,
    "names-of-secrets-searched-from-each-letter": SPEC + f"  owner: {'secret-' * 9000}\n",
    "one-word-that-fills-screens": SPEC + f"  ? {'k' * 65536}\n  : 1\n",
    "tag-directives-compared-each-with-each": (
        "".join(f"%TAG !{n:x}! x\n" for n in range(12000)) + "---\n" + SPEC
    ),
    "tokens-searched-from-each-letter": SPEC + f"  owner: {'eyJ-' * 16384}\n",
}

LONG_INPUTS: Mapping[str, Mapping[str, str]] = {"spec_loader": SPEC_FILES}
"""Of each target."""
