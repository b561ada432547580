"""Every JSON form fits its published schema, and the schema knows every field."""

from __future__ import annotations

import json

import jsonschema
import pytest

from reconciler import shipped
from reconciler.cli.exit_codes import Exit
from reconciler.cli.main import run
from reconciler.cli.views import plan_json
from reconciler.cli.views.documents import document
from reconciler.model.plan.plan import Plan
from reconciler.operations.views import AllocationRow, LastRun, NeedsYou, SkuRow, Status


def check(word: str, value: object) -> None:
    schema = json.loads(shipped.schemas()[word])
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(json.loads(json.dumps(value)))


@pytest.mark.parametrize("which", ["full_plan", "quiet_plan"])
def test_plan_fits_its_schema(which: str, request: pytest.FixtureRequest) -> None:
    """F-CLI-01"""
    plan: Plan = request.getfixturevalue(which)
    shown = document("plan", Exit.CHANGES, problems=plan.problems, result=plan_json.view(plan))
    check("plan", shown)
    assert shown["schemaVersion"] == 1
    assert len(shown["result"]["changes"]) == len(plan.changes)


def test_status_fits_its_schema() -> None:
    """F-CLI-01"""
    found = Status(
        state_id="s",
        serial=7,
        at="2026-11-27T09:14:00Z",
        observed_age=None,
        nodes={"ready": 3},
        gpus={"free": 20, "held": 4},
        capacity=(SkuRow(sku="a", shape="gpu_slice", gpus=1, free=1, after_cleanup=1, held=0),),
        needs_you=(NeedsYou(kind="blocked", text="t", command="c"),),
        allocations=(
            AllocationRow(
                ref="allocation/p/a",
                owner="ana",
                sku="a",
                node="n",
                slots=("s0",),
                phase="active",
                health="healthy",
                login="l",
                storage=("data rw at /data/data",),
            ),
        ),
        storage={"made": 1},
        last_run=LastRun(id="r", state="done", started="t", actor="ana"),
    )
    check("status", document("status", Exit.DONE, result=found))


def test_refusals_fit_their_schema(capsys) -> None:
    """F-CLI-01"""
    assert run(["plon", "-o", "json"]) == 64
    check("problems", json.loads(capsys.readouterr().out))


def test_documents_are_ascii(capsys, watch) -> None:
    """F-CLI-05: no locale can break a document, F-CLI-03: nor can it steer a terminal."""
    watched = watch("ascii")
    watched.screen.document({"name": "Å\x1b\u202e\ud800"})
    assert json.loads(watched.out.shown) == {"name": "Å\x1b\u202e\ud800"}
    assert watched.out.shown.isascii()
    assert "\x1b" not in watched.out.shown
