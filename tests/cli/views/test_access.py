"""Who is let in, as people read it; and drift that a plan only tells of."""

from __future__ import annotations

import json
from collections.abc import Iterable

import jsonschema
import pytest

from reconciler import shipped
from reconciler.cli.exit_codes import Exit, of_plan
from reconciler.cli.text import TextLine, render
from reconciler.cli.views import access as access_view
from reconciler.cli.views import applied as applied_view
from reconciler.cli.views import plan_json, plan_markdown, plan_text
from reconciler.cli.views.documents import document
from reconciler.model.plan.plan import Note
from reconciler.model.ref import Ref
from reconciler.model.state.world import Revocation
from reconciler.operations.apply.application import Applied
from reconciler.operations.apply.logins import Login
from reconciler.operations.views import AccessReview, AccessRow
from reconciler.planner.drift.notes import StrayKey
from tests.cli.conftest import CREATE, REPAIR, make

TRAIN = Ref("allocation", "vision", "train-a")
HOSTILE = "SHA256:q0\x1b[2J ~/.ssh/authorized_keys"


def text(lines: Iterable[TextLine]) -> str:
    return "".join(render(one) + "\n" for one in lines)


def row(user: str, state: str = "active", **more: object) -> AccessRow:
    keys = (f"desk SHA256:{user}",) if state == "active" else ()
    fields = {"allocation": str(TRAIN), "cause": str(TRAIN), "state": state, "keys": keys}
    return AccessRow(user=user, **(fields | more))  # type: ignore[arg-type]


def test_a_review_names_doors_keys_and_what_lies_about() -> None:
    """ACC-09, F-GRT-07: all of it on one page, and a forged name of a key cannot steer it."""
    found = AccessReview(
        rows=(
            row("ana"),
            row("bo", cause="grant/vision/help", until="2026-12-20T00:00:00Z", reason="helps"),
            row("cem", "no_key", cause="grant/vision/later"),
        ),
        strays=(StrayKey(ref=TRAIN, node="gpu01", login="train-a-k7q2", key=HOSTILE, at=""),),
        pending=(Revocation(ref=TRAIN, node="gpu31", people=("dana",), since="2026-11-27T08:52Z"),),
        unseen=("gpu31",),
    )
    shown = text(access_view.lines(found))
    table, *_ = shown.split("\n\n")
    assert [line.split()[1:3] for line in table.splitlines()[1:]] == [
        ["ana", "active"],
        ["bo", "active"],
        ["cem", "no_key"],
    ]
    assert "ana/desk SHA256:ana" in shown and "cem/desk" not in shown
    assert "\x1b" not in shown and "train-a-k7q2 on gpu01" in shown
    assert "dana  allocation/vision/train-a on gpu31 since 2026-11-27T08:52Z" in shown
    assert "keys of people's own, unknown on: gpu31" in shown


def test_a_review_of_nothing() -> None:
    assert text(access_view.lines(AccessReview())) == "nobody is let in anywhere\n"
    of_bo = access_view.lines(AccessReview(), asked=("user bo", "allocation/vision/train-a"))
    assert text(of_bo) == "nobody is let in: user bo, allocation/vision/train-a\n"


NOTES = (
    Note(ref=TRAIN, topic="access", text=f"key {HOSTILE} opens nothing"),
    Note(ref=Ref("node", "", "gpu09"), topic="access", text="key SHA256:q1 opens nothing"),
)


def test_drift_that_is_only_told() -> None:
    """F-GRT-07: a section of its own, a word in the sum, in every form, and no advice to apply."""
    plan = make(notes=NOTES)
    shown = text(plan_text.lines(plan))
    assert "≠ DRIFT (2)" in shown and "reported, no more" in shown
    assert "2 reported · 214 unchanged" in shown
    assert "\x1b" not in shown and "gpuaas apply" not in shown
    assert "DRIFT (2)" in plan_markdown.text(plan)
    schema = json.loads(shipped.schemas()["plan"])
    told = document("plan", Exit.DONE, result=plan_json.view(plan))
    jsonschema.Draft202012Validator(schema).validate(told)
    assert [note["topic"] for note in told["result"]["notes"]] == ["access", "access"]


@pytest.mark.parametrize(
    ("changes", "plain", "detailed"), [((), 0, 4), ((REPAIR,), 0, 4), ((CREATE,), 0, 2)]
)
def test_drift_that_is_only_told_is_drift(changes, plain: int, detailed: int) -> None:
    """F-PLN-09, rule 20: 4 where there is nothing else; changes count before it."""
    plan = make(*changes, notes=NOTES)
    assert (of_plan(plan, detailed=False), of_plan(plan, detailed=True)) == (plain, detailed)


def test_an_apply_ends_with_the_lines_to_log_in_by() -> None:
    """Rule 5: what works as it stands, and what needs nothing of ours."""
    logins = (
        Login(
            ref="allocation/vision/train-a",
            login="train-a-k7q2",
            node="gpu01",
            place="ssh -F /srv/gpuaas/vision/ssh_config train-a.vision",
            plain="ssh -p 2222 train-a-k7q2@gpu01.corp.example",
        ),
        Login(
            ref="allocation/nlp/box", login="box-aaaa", node="gpu02", place="/fleet/home/box-aaaa"
        ),
    )
    shown = text(applied_view.lines(Applied(plan=make(), run="run-000001", logins=logins)))
    assert shown.splitlines()[-3:] == [
        "log in  ssh -F /srv/gpuaas/vision/ssh_config train-a.vision   allocation/vision/train-a",
        "        or, where ssh asks about the host: ssh -p 2222 train-a-k7q2@gpu01.corp.example",
        "log in  /fleet/home/box-aaaa   allocation/nlp/box",
    ]
