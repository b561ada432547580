"""A comparison on the screen and as a comment: the same in both, and never too long for one."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from reconciler import shipped
from reconciler.cli.exit_codes import Exit, of_comparison
from reconciler.cli.views import comparison, comparison_markdown
from reconciler.cli.views.comparison_markdown import MOST
from reconciler.cli.views.documents import document
from reconciler.model.plan.comparison import Comparison, ComparisonBase
from reconciler.model.plan.plan import Action, Change, Plan, Risk
from reconciler.model.problem import Problem
from reconciler.model.ref import Ref
from reconciler.specs.read.validation import Validator
from tests.cli.conftest import CREATE, RELEASE, allocation

HOSTILE = (
    "``` @everyone <script>x</script> </summary></details> --> [a](b) ![c](d) \n# title \u202e|"
)


@pytest.fixture
def full(full_plan: Plan) -> Comparison:
    return Comparison(
        base=ComparisonBase(revision="origin/main", commit="1a2b3c4d5e", ahead=2),
        plan=replace(full_plan, suspended=(), fingerprint="", waves=()),
        withdrawn=(replace(RELEASE, ref=allocation("spared")),),
        shared=(CREATE,),
        mended=1,
        price_per_hour={"EUR": "-2.10"},
    )


def many(count: int, **more: object) -> tuple[Change, ...]:
    made = Change(ref=allocation("x"), action=Action.CREATE, facts={"why": HOSTILE * 40})
    return tuple(
        replace(made, ref=allocation(f"{'n' * 50}-{number}"), **more) for number in range(count)
    )


def test_as_text(watch, golden, full: Comparison) -> None:
    watched = watch()
    watched.screen.show(comparison.lines(full))
    golden("comparison.txt", watched.out.shown)


def test_as_a_comment(golden, full: Comparison) -> None:
    golden("comparison.md", comparison_markdown.text(full))


def test_as_json(full: Comparison) -> None:
    told = document("plan", Exit.DONE, result=comparison.view(full))
    assert not Validator(shipped.schemas()["plan"]).flaws(told)
    against = told["result"]["against"]
    assert (against["revision"], against["ahead"], against["mended"]) == ("origin/main", 2, 1)
    assert [one["ref"] for one in against["withdrawn"]] == ["allocation/vision/spared"]
    assert against["shared"] == {"to create": 1}


def test_nothing_is_said_in_a_few_lines(quiet_plan: Plan) -> None:
    quiet = Comparison(base=ComparisonBase(revision="main", commit="1a2b3c4d5e"), plan=quiet_plan)
    shown = comparison_markdown.text(quiet)
    assert "changes nothing that is applied" in shown and len(shown) < 500


@pytest.mark.parametrize("count", [1, 40, 400, 5000])
@pytest.mark.parametrize("risk", list(Risk))
def test_it_is_never_too_long(full: Comparison, count: int, risk: Risk) -> None:
    changes = (*full.plan.changes, *many(count, risk=risk))
    problems = tuple(
        Problem(code="x", message=f"{number} {HOSTILE * 100}", hint=HOSTILE * 100)
        for number in range(count)
    )
    shown = comparison_markdown.text(
        replace(
            full,
            plan=replace(full.plan, changes=changes, problems=problems),
            withdrawn=many(count),
            base=ComparisonBase(revision="x" * 5000, commit="c" * 40, ahead=1),
            place="p" * 5000,
        )
    )
    assert len(shown) <= MOST
    lines = shown.splitlines()
    assert sum(one.startswith("<details>") for one in lines) == lines.count("</details>")
    for noun in ("BLOCKED", "HELD", "RELEASE", "RESTART", "WITHDRAWN", "CREATE", "DRIFT"):
        assert f"{noun} (" in shown


def test_many_problems_do_not_hide_what_is_destroyed(full: Comparison) -> None:
    """Whoever brings a thousand blocked requests cannot push a release out of sight."""
    blocked = many(5000, action=Action.BLOCKED, problem=Problem(code="x", message=HOSTILE * 9))
    plan = replace(full.plan, changes=(*blocked, *full.plan.changes))
    shown = comparison_markdown.text(replace(full, plan=plan))
    assert f"<code>{RELEASE.ref}</code>" in shown
    assert re.search(r"and \d+ more of these", shown)


def test_what_does_not_fit_is_counted(full: Comparison) -> None:
    plan = replace(full.plan, changes=many(3000), problems=())
    shown = comparison_markdown.text(replace(full, plan=plan, withdrawn=()))
    (rest,) = re.findall(r"and (\d+) more of these", shown)
    assert shown.count("<code>allocation/vision/") == 3000 - int(rest)
    assert len(shown) > MOST * 0.9


@pytest.mark.parametrize(
    "give",
    [
        lambda one: replace(one, summary=HOSTILE),
        lambda one: replace(one, facts={"why": HOSTILE}),
        lambda one: replace(one, ref=Ref("allocation", HOSTILE, HOSTILE)),
        lambda one: replace(one, problem=Problem(code="x", message=HOSTILE, hint=HOSTILE)),
    ],
)
def test_a_comment_cannot_be_left(full: Comparison, give: Callable[[Change], Change]) -> None:
    """F-CLI-03: outside code nothing is left of what somebody else wrote."""
    hostile = replace(full, plan=replace(full.plan, changes=(give(CREATE),), problems=()))
    shown = comparison_markdown.text(
        replace(hostile, base=ComparisonBase(revision=HOSTILE, commit="c" * 9))
    )
    bare = re.sub(r"<code>[^<]*</code>", "", shown)
    bare = re.sub(r"(`+) ?.*?(?<!`)\1(?!`)", "", bare)
    for word in ("@everyone", "script", "](", "title", "\u202e"):
        assert word not in bare
    assert shown.splitlines().count("</details>") == bare.count("</details>")
    assert bare.count("<details>") == bare.count("</details>")


def test_the_first_line_is_always_the_same(full: Comparison) -> None:
    first = comparison_markdown.text(full).splitlines()[0]
    assert first == "<!-- gpuaas-plan -->"
    odd = comparison_markdown.text(replace(full, place="fleets/a-->--x/")).splitlines()[0]
    assert odd.startswith("<!-- gpuaas-plan fleets/a") and odd.endswith(" -->")
    assert "--" not in odd.removeprefix("<!--").removesuffix("-->")


@pytest.mark.parametrize(
    ("changes", "withdrawn", "detailed", "code"),
    [
        ((), (), True, Exit.DONE),
        ((), (RELEASE,), False, Exit.DONE),
        ((), (RELEASE,), True, Exit.CHANGES),
        ((CREATE,), (), False, Exit.DONE),
        ((CREATE,), (), True, Exit.CHANGES),
    ],
)
def test_exit_codes(full: Comparison, changes, withdrawn, detailed: bool, code: Exit) -> None:
    plan = replace(full.plan, changes=changes, problems=(), notes=())
    found = of_comparison(replace(full, plan=plan, withdrawn=withdrawn), detailed=detailed)
    assert found is code
