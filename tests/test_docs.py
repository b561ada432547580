"""The documentation cannot rot: what the code knows is described, and what is described exists."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from reconciler.cli.main import COMMANDS
from reconciler.kinds.registry import KINDS
from reconciler.model.codes import CODES
from reconciler.planner.placement import filters
from reconciler.planner.placement.reasons import WORDS
from tests.docs import render_commands, render_features, render_kinds, render_verbs

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "tests").rglob("*.md")])

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
BLOCK = re.compile(r"^```(?:sh|shell|console|bash)\n(.*?)^```", re.DOTALL | re.MULTILINE)
KNOWN_PROGRAMS = (
    "gpuaas make git cd export pip pipx python3 ssh ssh-keygen cat mkdir mv apt-get sudo"
)


def rows(page: Path) -> dict[str, list[str]]:
    """The tables of a page: the word in backticks of the first column → the other cells."""
    found: dict[str, list[str]] = {}
    for line in page.read_text(encoding="utf-8").splitlines():
        if match := re.match(r"\| `([^`]+)` \| (.*) \|$", line):
            assert match[1] not in found, f"{page.name} explains {match[1]} twice"
            found[match[1]] = match[2].split(" | ")
    return found


def test_every_problem_code_is_explained() -> None:
    explained = rows(REFERENCE / "problems.md")
    assert list(explained) == list(CODES)
    assert {code: cells[0] for code, cells in explained.items()} == dict(CODES)
    assert all(len(cells) == 2 and cells[1].endswith(".") for cells in explained.values())


def test_every_verb_is_explained() -> None:
    page = REFERENCE / "verbs.md"
    assert page.read_text(encoding="utf-8") == render_verbs.render(), (
        "docs/reference/verbs.md is not what the verbs say: python -m tests.docs.render_verbs"
    )


def test_every_feature_is_explained() -> None:
    """MAT-01: what is built and what is gated stands in a table that is the program's own."""
    page = REFERENCE / "features.md"
    assert page.read_text(encoding="utf-8") == render_features.render(), (
        "docs/reference/features.md is not what the list says: python -m tests.docs.render_features"
    )


def test_every_command_is_explained() -> None:
    page = REFERENCE / "commands.md"
    assert page.read_text(encoding="utf-8") == render_commands.render(), (
        "docs/reference/commands.md is not what the commands say: "
        "python -m tests.docs.render_commands"
    )


def test_every_placement_rule_is_explained_in_its_order() -> None:
    of_nodes = [*filters.NODE_RULES, *filters.RUNTIME_RULES, *filters.HELD_RULES]
    of_slots = [*filters.SLOT_RULES, *filters.PROMISE_RULES]
    last = [filters.NODE_TOO_SMALL, *of_slots, filters.TOO_FEW_FREE_SLOTS]
    explained = rows(REFERENCE / "placement.md")
    assert list(explained) == [*filters.REQUEST_RULES, *of_nodes, *last]
    assert {rule: cells[0] for rule, cells in explained.items()} == dict(WORDS)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_is_explained(kind: str) -> None:
    page = REFERENCE / "kinds" / f"{kind}.md"
    assert page.read_text(encoding="utf-8") == render_kinds.render(kind), (
        f"{page.relative_to(ROOT)} is not what its schema says: python -m tests.docs.render_kinds"
    )


def test_rules_of_automation_may_be_about_each_kind() -> None:
    schema = render_kinds.POLICY.read_text(encoding="utf-8")
    assert schema == render_kinds.naming_kinds(schema), (
        "schemas/policy.schema.json names other kinds: python -m tests.docs.render_kinds"
    )


def test_pages_of_kinds_are_of_kinds() -> None:
    pages = {page.stem for page in (REFERENCE / "kinds").glob("*.md")} - {"README"}
    assert pages == set(KINDS)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    broken = [
        target
        for target in LINK.findall(page.read_text(encoding="utf-8"))
        if not target.startswith(("http://", "https://", "#"))
        and not (page.parent / target.split("#")[0]).exists()
    ]
    assert not broken, broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_headings(page: Path) -> None:
    """A heading that is worded anew takes along the links to it."""
    broken = [
        target
        for target in LINK.findall(page.read_text(encoding="utf-8"))
        if "#" in target and not target.startswith(("http://", "https://"))
        for file, _, anchor in [target.partition("#")]
        if anchor not in anchors(page.parent / file if file else page)
    ]
    assert not broken, broken


def anchors(page: Path) -> set[str]:
    """The names that forges give to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_shown_commands_exist(page: Path) -> None:
    """Every line a reader may type starts with a known program, every gpuaas command exists."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for block in BLOCK.findall(page.read_text(encoding="utf-8")):
        for line in block.splitlines():
            words = shlex.split(line.removeprefix("$ "), comments=True)
            if not words:
                continue
            assert words[0] in KNOWN_PROGRAMS.split(), f"{page.name}: {line}"
            if words[0] == "gpuaas":
                command = next((word for word in words[1:] if not word.startswith("-")), None)
                assert command is None or command in COMMANDS, f"{page.name}: {line}"
            if words[0] == "make" and len(words) > 1:
                assert words[1] in targets, f"{page.name}: {line}"


def test_the_vocabulary_stands_in_the_glossary() -> None:
    """Every public class of `model/` that names a thing of the domain has a line, so do kinds."""
    glossary = rows(DOCS / "glossary.md")
    wanted = {
        "spec", "document", "resource", "ref", "desired", "recorded", "observed", "execution",
        "projected", "node", "family", "slot", "sku", "shape", "claim", "posture", "isolation",
        "endpoint", "evidence", "proof", "plan", "change", "step", "wave", "run", "event", "actor",
        "problem", "runbook", "approval", "readiness", "consent", "lock", "lease", "receipt",
        "observation", "verb", "world", "journal", "serial", "fingerprint", "descriptor", "basis",
        "preparation", "wall", "hardening", "named fact", "projection", "stray key", "revocation",
    }  # fmt: skip
    kinds = {kind.replace("_", " ") for kind in KINDS} - {"node family"}
    assert wanted | kinds <= set(glossary), (wanted | kinds) - set(glossary)
    assert list(glossary) == sorted(glossary), "the glossary is in alphabetical order"


def test_decisions_are_numbered_without_gaps() -> None:
    numbers = sorted(page.name[:4] for page in (DOCS / "decisions").glob("*.md"))
    assert numbers == [f"{number:04}" for number in range(1, len(numbers) + 1)]


def test_modules_that_the_page_of_the_architecture_names_are_there() -> None:
    """Below the package, or below the planner, of which that page tells most."""
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    code = ROOT / "reconciler"
    rooms = "|".join(path.name for path in code.iterdir() if path.is_dir())
    named = set(re.findall(rf"`((?:{rooms})/[a-z_/]+)`", page))
    assert len(named) > 50
    gone = [one for one in named if not (code / f"{one}.py").is_file()]
    assert not [one for one in gone if not (code / one).is_dir()], gone
