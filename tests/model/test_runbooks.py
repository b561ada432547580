"""The literal map from codes to runbooks, and the pages that it leads to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reconciler.cli.main import COMMANDS
from reconciler.model.codes import CODES
from reconciler.model.runbooks import RUNBOOKS, runbook_of
from reconciler.model.symptom import SYMPTOMS

FOLDER = Path(__file__).parents[2] / "docs" / "runbooks"
PAGES = sorted(path.stem for path in FOLDER.glob("*.md") if path.stem != "README")


def text(page: str) -> str:
    return (FOLDER / f"{page}.md").read_text(encoding="utf-8")


def test_every_code_and_symptom_has_a_runbook() -> None:
    """RUN-06: name the page of a new code in `model/runbooks.py`, and the code on that page."""
    assert RUNBOOKS.keys() == {*CODES, *SYMPTOMS}


def test_symptoms_are_no_codes() -> None:
    assert not SYMPTOMS.keys() & CODES.keys()


def test_every_page_is_of_some_code() -> None:
    assert sorted(set(RUNBOOKS.values())) == PAGES


@pytest.mark.parametrize("page", PAGES)
def test_a_page_says_what_it_is_for_what_to_do_and_what_never(page: str) -> None:
    """RUN-05, RUN-06: the codes that lead here, what to look at, steps, and what to leave alone."""
    told = text(page)
    named = next(line for line in told.splitlines() if line.startswith("For: "))
    assert re.findall("`([a-z_0-9]+)`", named) == [c for c, p in RUNBOOKS.items() if p == page]
    assert re.findall("^## (.*)", told, re.MULTILINE) == ["Look", "Do", "Never"]
    assert told.startswith("# ") and "\n1. " in told and "```sh\n" in told


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_commands_that_there_are(page: str) -> None:
    named = re.findall(r"`gpuaas ([a-z-]+)", text(page))
    assert set(named) <= COMMANDS.keys()


def test_a_page_is_found_by_its_name_too() -> None:
    assert runbook_of("cleanup_blocked") == runbook_of("cleanup") == "cleanup"
    assert runbook_of("nonsense") == ""


def test_the_router_leads_to_every_page_and_explains_every_symptom() -> None:
    """RUN-06: from what somebody sees to what they are to do."""
    told = text("README")
    assert set(re.findall(r"\(([a-z-]+)\.md\)", told)) == set(PAGES)
    rows = re.findall(r"^\| `([a-z_]+)` \| (.*) \| \[([a-z-]+)\]", told, re.MULTILINE)
    assert rows == [(word, meaning, RUNBOOKS[word]) for word, meaning in SYMPTOMS.items()]
