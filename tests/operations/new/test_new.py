"""New specs by their forms: sound with the whole fleet, planned and applied as they are."""

from __future__ import annotations

import json
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from reconciler import shipped
from reconciler.kinds.registry import KINDS
from reconciler.model.moment import format_moment
from reconciler.model.problem import ProblemError
from reconciler.operations.fleet import utc_now
from reconciler.operations.new.answers import chosen, from_options
from reconciler.operations.new.contract import (
    REVIEW,
    Answers,
    NoAnswer,
    Scene,
    SpecQuestion,
)
from reconciler.operations.new.forms.registry import FORMS
from reconciler.operations.new.new import NewSpec, prepare, scene_of, write
from reconciler.specs.read.yaml_reader import read_documents
from tests.fleets import public_key
from tests.harness.yard import Yard, copy_of, laid, project
from tests.planner import fleet as paper

SCRATCH = {"directory": {"path": "/srv/scratch", "shared": True}}
VISION: dict[str, Any] = project("vision", "ana", "bo", "cem", "dana")
VISION["spec"]["entitlements"]["storageClasses"] = ["disk", "wide"]
VISION["spec"]["quota"]["storageGiB"] = 100
TOO_NEW = {
    "version": "2.0",
    "compatible": {"gpuVendor": "nvidia", "families": ["h100"], "driverMin": "999.1"},
}
FITS = {
    "version": "1.0",
    "compatible": {"gpuVendor": "nvidia", "families": ["h100"], "driverMin": "1.1"},
}


def bundle() -> dict[str, Any]:
    spec = {"displayName": "Tools", "supportLevel": "supported", "versions": [FITS, TOO_NEW]}
    return paper.document("Bundle", "tools", spec)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Yard:
    """One host of four slots, everything applied but allocations; two classes, one bundle."""
    yard = laid(
        tmp_path_factory.mktemp("new") / "fleet",
        {"gpu01": 4},
        VISION,
        paper.storage_class("disk", directory={"path": "/srv/disk"}),
        paper.storage_class("wide", ("multi_reader", "single_writer"), maxAttachments=8, **SCRATCH),
        paper.storage("datasets", "disk", sizeGiB=1),
    )
    assert yard.plan("--refresh").code == 0
    assert yard.apply().code == 0
    yard.write(bundle())
    yard.commit()
    return yard


@pytest.fixture
def yard(made: Yard, tmp_path: Path) -> Yard:
    return copy_of(made, tmp_path / "fleet")


@pytest.fixture
def scene(made: Yard) -> Scene:
    return scene_of(made.fleet())


def answers(scene: Scene, kind: str, **given: str | tuple[str, ...]) -> Answers:
    texts = {
        name.replace("_", "-"): (text,) if isinstance(text, str) else text
        for name, text in given.items()
    }
    return from_options(FORMS[kind], scene, texts, may_ask=False)


def draft(yard: Yard, kind: str, **given: str | tuple[str, ...]) -> NewSpec:
    scene = scene_of(yard.fleet())
    return prepare(FORMS[kind], scene, answers(scene, kind, **given))


def put(yard: Yard, kind: str, **given: str | tuple[str, ...]) -> NewSpec:
    return write(yard.fleet(), draft(yard, kind, **given), commit=False)


def refusal(yard: Yard, kind: str, **given: str | tuple[str, ...]) -> tuple[str, str]:
    before = sorted(yard.specs.rglob("*"))
    with pytest.raises(ProblemError) as refused:
        put(yard, kind, **given)
    assert sorted(yard.specs.rglob("*")) == before
    problem = refused.value.problems[0]
    return problem.code, problem.message


def question(kind: str, name: str) -> SpecQuestion:
    return next(one for one in FORMS[kind].questions if one.name == name)


def words(scene: Scene, kind: str, name: str, **given: str) -> list[str]:
    known = Answers(given={key: (text,) for key, text in given.items()})
    return [one.word for one in question(kind, name).choices(scene, known)]


# -- forms


@pytest.mark.parametrize("kind", FORMS)
def test_a_form_is_of_its_kind_and_has_an_option_for_each_question(kind: str) -> None:
    form = FORMS[kind]
    assert form.kind == kind and kind in KINDS
    names = [one.name for one in form.questions]
    assert len(names) == len(set(names)) and "name" in names
    for at, one in enumerate(form.questions):
        assert one.help.endswith(".") and not one.asks.endswith((".", ":"))
        assert not one.needs or one.needs in names[:at], f"{one.name} is asked too early"


def test_compute_comes_first_and_extras_are_steps() -> None:
    """LCH-02, LCH-03: compute, access, storage, runtime, review; the first two are all that is
    required.
    """
    form = FORMS["allocation"]
    assert form.steps == ("compute", "access", "storage", "runtime", REVIEW)
    required = {one.step for one in form.questions if one.required}
    assert required == {"compute", "access"}


def test_what_is_offered_is_what_there_is(scene: Scene, made: Yard) -> None:
    """Entitled SKUs with what is free, as `capacity` has it; storages of the project."""
    offered = question("allocation", "sku").choices(scene, Answers(given={"project": ("vision",)}))
    free = {row["sku"]: row["free"] for row in made.gpuaas("capacity").document["result"]}
    assert [one.word for one in offered] == ["slice-1", "slice-2", "whole"]
    assert [one.note.split(" free")[0] for one in offered] == [
        str(free[one.word]) for one in offered
    ]
    assert "2.10 EUR/h" in offered[0].note and "4.20 EUR/h" in offered[1].note
    assert "2.10 EUR/h a GPU" in offered[2].note
    assert words(scene, "allocation", "storage", project="vision") == ["datasets"]
    assert words(scene, "allocation", "storage", project="nlp") == []
    assert words(scene, "storage", "class", project="vision") == ["disk", "wide"]
    assert words(scene, "storage", "mode", **{"class": "wide"}) == ["multi_reader", "single_writer"]


def test_bundles_are_offered_that_run_on_the_nodes_of_the_sku(scene: Scene) -> None:
    given = {"project": "vision", "sku": "slice-1"}
    assert words(scene, "allocation", "runtime", **given) == ["tools@1.0"]
    known = Answers(given={key: (text,) for key, text in given.items()})
    runtime = question("allocation", "runtime")
    assert runtime.read("tools", scene, known) == "tools@1.0", "the newest that fits"
    assert runtime.read("tools@2.0", scene, known) == "tools@2.0", "a person may know better"
    for text in ("tool", "tools@3.0", "@1.0", ""):
        with pytest.raises(NoAnswer):
            runtime.read(text, scene, known)


def test_who_names_a_bundle_that_does_not_fit_is_told(yard: Yard) -> None:
    found = draft(
        yard, "allocation", project="vision", sku="slice-1", name="x", owner="ana",
        runtime=("tools@2.0",),
    )  # fmt: skip
    assert "driver_too_old" in found.facts["warning"]


def test_a_number_stands_for_its_choice(scene: Scene) -> None:
    known = Answers(given={"project": ("vision",), "owner": ("ana",)})
    assert chosen(question("allocation", "sku"), scene, known, "2") == ("slice-2",)
    guests = question("allocation", "access")
    assert chosen(guests, scene, known, "1, 3") == ("bo", "dana")
    assert chosen(guests, scene, known, "bo cem") == ("bo", "cem")
    storage = question("allocation", "storage")
    assert chosen(storage, scene, known, "1:ro:/data/sets") == ("datasets:ro:/data/sets",)
    for text in ("0", "5", "99999999999", "1,1", "bo,bo", "1 bo"):
        with pytest.raises(NoAnswer):
            chosen(guests, scene, known, text)


# -- documents


def test_an_allocation_of_everything_is_written_planned_and_applied(yard: Yard) -> None:
    """LCH-01, LCH-07: the file says what was answered, and is carried out as it is."""
    found = put(
        yard, "allocation", project="vision", sku="slice-1", name="train", owner="ana",
        access=("bo",), expires="14d", storage=("datasets:rw:/data/sets",),
    )  # fmt: skip
    text = (yard.folder / found.file).read_text()
    assert found.file == "specs/project/train.yaml", "no other allocation: where its project is"
    assert text == found.yaml and text.count("  # ") >= 4
    spec = yaml.safe_load(text)["spec"]
    assert spec["access"] == ["ana", "bo"]
    assert spec["storage"] == [{"name": "datasets", "mountPath": "/data/sets", "mode": "rw"}]
    assert found.facts["rate"] == "2.10 EUR/h"
    assert found.facts["lasts"].startswith("/data/sets (datasets, rw) outlives it")
    assert not yard.gpuaas("validate").document["problems"]
    assert yard.plan().actions["allocation/vision/train"] == "create"
    assert yard.apply().code == 0
    assert yard.keys("allocation/vision/train") == [
        "ana/desk",
        "ana/laptop",
        "bo/desk",
        "bo/laptop",
    ]
    assert "allocation/vision/train" not in yard.plan().actions, "nothing is left to do"


def test_every_kind_is_written_validated_and_applied_unchanged(yard: Yard) -> None:
    """LCH-04: a person, their project, its storage, an allocation, and a grant on it."""
    put(yard, "user", name="eve", email=("eve@corp.example",), key=(f"laptop={public_key('eve')}",))
    put(
        yard, "project", name="sound", tenant="corp", owner="eve", member=("ana:maintainer", "bo"),
        gpus="4", sku=("slice-1",), storage_class=("disk",), storage_gib="10",
    )  # fmt: skip
    put(yard, "storage", project="sound", name="takes", size="2", **{"class": "disk"})
    put(
        yard, "allocation", project="sound", sku="slice-1", name="mix", owner="eve",
        storage=("takes",), protect="yes",
    )  # fmt: skip
    made = put(
        yard, "grant", project="sound", allocation="mix", user="bo", expires="24h", reason="helps",
        key=("desk",), **{"from": ("10.0.0.0/8",)},
    )  # fmt: skip
    assert made.ref == "grant/sound/bo-on-mix"
    assert not [p for p in yard.gpuaas("validate").document["problems"] if p["severity"] == "error"]
    files = {path: path.read_bytes() for path in yard.specs.rglob("*.yaml")}
    assert yard.plan("--refresh").code == 0
    assert yard.apply().code == 0
    assert {path: path.read_bytes() for path in yard.specs.rglob("*.yaml")} == files
    assert yard.keys("allocation/sound/mix") == ["bo/desk", "eve/laptop"]
    assert {change for change in yard.plan().actions if "sound" in change} == set()


def test_defaults_serve_whom_nobody_asks(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    """The only project of whoever asks, and they themselves; a class that the fleet proposes."""
    monkeypatch.setenv("GIT_AUTHOR_EMAIL", "cem@corp.example")
    found = draft(yard, "allocation", sku="slice-1", name="mine")
    assert found.ref == "allocation/vision/mine"
    assert yaml.safe_load(found.yaml)["spec"] == {"sku": "slice-1", "owner": "cem"}
    assert refusal(yard, "storage", project="vision", name="new", size="1") == (
        "usage",
        "a new storage needs --class",
    )
    wide = paper.storage_class("wide", ("multi_reader",), maxAttachments=8, default=True, **SCRATCH)
    yard.write(wide)
    spec = yaml.safe_load(draft(yard, "storage", project="vision", name="new", size="1").yaml)[
        "spec"
    ]
    assert (spec["class"], spec["accessMode"]) == ("wide", "multi_reader")


def test_all_that_is_missing_is_named_at_once(yard: Yard) -> None:
    code, message = refusal(yard, "allocation", project="vision")
    assert (code, message) == ("usage", "a new allocation needs --sku, NAME, --owner")
    assert refusal(yard, "grant")[1] == "a new grant needs --project, --expires, --reason"


def test_an_app_is_printed_and_not_written(yard: Yard) -> None:
    assert FORMS["app"].gate == "apps"
    said = yard.gpuaas("new", "app", "chat")
    assert (said.code, said.problems) == (1, ["not_yet_supported"])
    examples = Path(__file__).parents[3] / "docs/reference/examples"
    for kind in ("app_manifest", "artifact"):
        yard.write(*yaml.safe_load_all((examples / f"{kind}.yaml").read_text()))
    yard.write(paper.allocation("train"))
    words = ("--project", "vision", "--manifest", "vllm", "--member", "train", "--param", "a=b: c")
    said = yard.gpuaas("new", "app", "chat", *words, "--print")
    assert said.code == 0, said.document
    spec = yaml.safe_load(said.document["result"]["yaml"])["spec"]
    assert spec["members"] == [{"allocation": "train", "role": "node"}]
    assert spec["params"] == {"a": "b: c"}
    assert not (yard.folder / said.document["result"]["file"]).exists()


# -- the place


def test_a_file_of_its_own_beside_those_that_are_like_it(yard: Yard) -> None:
    yard.write(paper.allocation("old"))
    given: dict[str, Any] = {"project": "vision", "sku": "slice-1", "owner": "ana"}
    assert draft(yard, "allocation", name="new", **given).file == "specs/allocation/vision/new.yaml"
    (yard.specs / "allocation/vision/new.yaml").write_text("# a note\n")
    other = draft(yard, "allocation", name="new", **given).file
    assert other == "specs/allocation/vision/allocation-new.yaml"


def test_the_owners_of_folders_are_asked(yard: Yard) -> None:
    """Rule 19: a document that may not stand in its file would be none."""
    rules = [
        {"path": "teams/vision/*", "kinds": ["Allocation"], "projects": ["vision"]},
        {"path": "project/*", "kinds": ["Project"]},
        *({"path": f"{kind}/**", "kinds": []} for kind in ("user", "sku", "policy", "node")),
        *({"path": f"{kind}/**"} for kind in ("nodefamily", "storageclass", "storage", "bundle")),
    ]
    text = json.dumps({"operators": ["olga"], "ownership": rules})
    (yard.folder / "gpuaas.yaml").write_text(text)
    given: dict[str, Any] = {"project": "vision", "sku": "slice-1", "owner": "ana", "name": "new"}
    found = put(yard, "allocation", **given)
    assert found.file == "specs/teams/vision/new.yaml"
    assert not yard.gpuaas("validate").document["problems"]
    elsewhere = yard.specs / "project/other.yaml"
    said = yard.gpuaas(
        "new", "allocation", "other", "--project", "vision", "--sku", "slice-1", "--owner", "ana",
        "--file", str(elsewhere),
    )  # fmt: skip
    assert said.problems == ["document_outside_ownership"] and not elsewhere.exists()


@pytest.mark.parametrize(
    "name",
    [
        "../out.yaml",
        "specs/../../out.yaml",
        "specs/x.txt",
        "specs/.hidden/x.yaml",
        "specs/.x.yaml",
        "specs/folder.yaml/x.yaml",
        "specs/a\nb.yaml",
        "specs/a\x1b[2J.yaml",
        "out.yaml",
        "specs/link/deep/x.yaml",
    ],
)
def test_no_file_is_made_that_would_be_no_spec(yard: Yard, tmp_path: Path, name: str) -> None:
    (tmp_path / "out").mkdir()
    (yard.specs / "link").symlink_to(tmp_path / "out")

    def there() -> list[Path]:
        """But for what SQLite has beside a database that is read."""
        return sorted(
            one for one in tmp_path.rglob("*") if one.suffix not in (".db-shm", ".db-wal")
        )

    before = there()
    said = yard.gpuaas(
        "new", "user", "eve", "--email", "eve@corp.example", "--file", str(yard.folder / name)
    )
    assert (said.code, said.problems) == (1, ["file_outside_tree"])
    assert there() == before


def test_nothing_is_written_over(yard: Yard) -> None:
    taken = yard.specs / "user/ana.yaml"
    before = taken.read_bytes()
    words = ("new", "user", "eve", "--email", "eve@corp.example", "--file", str(taken))
    assert yard.gpuaas(*words).problems == ["file_exists"]
    found = draft(yard, "user", name="eve", email=("eve@corp.example",))
    (yard.folder / found.file).write_text("kind: somebody was faster\n")
    with pytest.raises(ProblemError) as refused:
        write(yard.fleet(), found, commit=True)
    assert refused.value.problems[0].code == "file_exists"
    assert (yard.folder / found.file).read_text() == "kind: somebody was faster\n"
    assert taken.read_bytes() == before


def test_what_is_told_can_be_pasted_into_a_shell(yard: Yard) -> None:
    hook = yard.folder / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho no >&2; exit 1\n")
    hook.chmod(0o755)
    name = "specs/a; touch b.yaml"
    words = ("new", "user", "eve", "--email", "eve@corp.example", "--file", str(yard.folder / name))
    said = yard.gpuaas(*words, "--commit")
    assert said.problems == ["commit_failed"]
    assert f"git add -- '{name}' && git commit -- '{name}'" in said.messages


def test_what_looks_like_a_secret_is_no_part_of_a_refusal(yard: Yard) -> None:
    body = f"b3BlbnNzaC1rZXktdjE{'x' * 40}"
    for question in ("owner", "sku", "name", "expires", "storage"):
        given = {"project": "vision", "name": "x", "sku": "slice-1", "owner": "ana"}
        code, said = refusal(yard, "allocation", **{**given, question: body})
        assert code == "usage" and body not in said


def test_commit_is_of_the_file_alone(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "olga")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "olga@corp.example")
    (yard.specs / "staged.yaml").write_text("# of somebody else\n")
    git = ("git", "-C", str(yard.folder))
    subprocess.run([*git, "add", "specs/staged.yaml"], check=True)
    said = yard.gpuaas("new", "user", "eve", "--email", "eve@corp.example", "--commit")
    assert said.code == 0, said.document
    shown = subprocess.check_output([*git, "show", "--stat", "--format=%s|%an", "HEAD"], text=True)
    assert shown.startswith("New user/eve|olga")
    assert "specs/user/eve.yaml" in shown and "staged" not in shown
    assert said.document["result"]["commit"]


def test_a_name_that_is_taken_is_refused_with_its_file(yard: Yard) -> None:
    code, message = refusal(yard, "user", name="ana", email=("x@corp.example",))
    assert code == "usage" and "specs/user/ana.yaml" in message
    assert (
        "belongs to user ana" in refusal(yard, "user", name="eve", email=("ANA@corp.example",))[1]
    )


def test_what_the_fleet_would_not_take_is_not_written(yard: Yard) -> None:
    """Sound by itself, and refused with the whole fleet around it."""
    given: dict[str, Any] = {"project": "vision", "sku": "slice-1", "owner": "ana", "name": "x"}
    assert refusal(yard, "allocation", **given, storage=("datasets:rw:/etc",))[0] == "value_pattern"
    private = "-----BEGIN OPENSSH PRIVATE KEY-----"
    code, message = refusal(
        yard, "grant", project="nlp", allocation="x", user="ana", expires="1h", reason=private
    )
    assert code == "usage", message
    put(yard, "allocation", **given)
    code, message = refusal(
        yard, "grant", project="vision", allocation="x", user="bo", expires="1h", reason=private
    )
    assert code == "private_key_in_spec"


# -- hostile answers

HOSTILE = (
    "../../etc/passwd",
    "a/../b",
    "x\n  admin: true",
    "x: y",
    "- x",
    "{a: b}",
    "[a]",
    "&a",
    "*a",
    "!!python/object x",
    "<<: *a",
    "# x",
    "a # b",
    "'",
    '"',
    "\\",
    "%YAML 1.1",
    "---",
    "...",
    "{{ lookup('pipe','id') }}",
    "$(id)",
    "`id`",
    "null",
    "~",
    "yes",
    "0x10",
    "1_000",
    "12:30:45",
    "2026-01-01",
    "\x1b[2J",
    "a\x00b",
    "\u202eevil",
    "\ud800",
    "A" * 5000,
    "é" * 33,
    " ",
    "\u2028",
    "\x85x",
)


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
@pytest.mark.parametrize("kind", sorted(set(FORMS) - {"node"}))
def test_no_answer_breaks_out_of_its_place(made: Yard, scene: Scene, kind: str, text: str) -> None:
    """Each question takes it as the text it is, or says why it is none; never anything else."""
    usual: dict[str, tuple[str, ...]] = {
        "project": ("vision",), "sku": ("slice-1",), "owner": ("ana",), "name": ("fresh",),
        "class": ("disk",), "size": ("1",), "email": ("eve@corp.example",), "tenant": ("corp",),
        "gpus": ("1",),
    }  # fmt: skip
    form = FORMS[kind]
    own = {one.name: usual[one.name] for one in form.questions if one.name in usual}
    for asked in form.questions:
        given = {**own, asked.name: (text,)}
        try:
            answers = from_options(form, scene, given, may_ask=True)
        except ProblemError as error:
            assert [one.code for one in error.problems] == ["usage"]
            continue
        if form.kind in {"app", "grant"}:
            continue
        drafted = form.draft(scene, answers)
        read = read_documents("x.yaml", drafted.text.encode())
        assert not read.problems, drafted.text
        assert [one.document.value for one in read.documents] == list(drafted.documents)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(reason=some.text(min_size=1, max_size=80), label=some.text(min_size=1, max_size=80))
def test_any_text_reads_back_as_itself(scene: Scene, reason: str, label: str) -> None:
    form = FORMS["user"]
    texts = {"name": ("eve",), "email": ("eve@corp.example",), "display-name": (label,)}
    try:
        answers = from_options(form, scene, texts, may_ask=False)
    except ProblemError as error:
        assert error.problems[0].code == "usage"
        return
    value = read_documents("x.yaml", form.draft(scene, answers).text.encode()).documents[0]
    if label.strip():
        assert value.document.value["spec"]["displayName"] == label.strip()


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("2h", True),
        ("14d", True),
        ("none", False),
        ("0h", False),
        ("1w", False),
        ("99999d", False),
        ("2020-01-01T00:00:00Z", False),
        ("2027-02-30T00:00:00Z", False),
        ("tomorrow", False),
        ("2099-01-01", False),
        ("１h", False),
    ],
)
def test_ends_lie_ahead_and_within_the_lease(scene: Scene, text: str, right: bool) -> None:
    known, asked = Answers(given={"project": ("vision",)}), question("allocation", "expires")
    if right:
        found = asked.read(text, scene, known)
        assert found > format_moment(scene.now)
    else:
        with pytest.raises(NoAnswer):
            asked.read(text, scene, known)


def test_a_grant_ends_by_the_policy(yard: Yard) -> None:
    yard.write(paper.policy(grant={"maxDays": 2}))
    yard.write(paper.allocation("train"))
    given: dict[str, Any] = {
        "project": "vision",
        "allocation": "train",
        "user": "bo",
        "reason": "x",
    }
    assert "at most" in refusal(yard, "grant", **given, expires="3d")[1]
    assert "without an end" in refusal(yard, "grant", **given, expires="none")[1]
    late = format_moment(utc_now() + timedelta(days=1))
    assert draft(yard, "grant", **given, expires=late).facts["ends"].startswith(late)
    assert "whole life" in refusal(yard, "grant", **{**given, "user": "ana"}, expires="1h")[1]


def test_a_key_is_read_from_its_file_and_never_repeated(yard: Yard, tmp_path: Path) -> None:
    file = tmp_path / "id.pub"
    file.write_text(f"{public_key('eve')}\n")
    person: dict[str, Any] = {"name": "eve", "email": ("eve@corp.example",)}
    found = draft(yard, "user", **person, key=(f"laptop={file}",))
    assert yaml.safe_load(found.yaml)["spec"]["keys"] == [
        {"id": "laptop", "publicKey": public_key("eve")}
    ]
    secret = "-----BEGIN OPENSSH PRIVATE KEY----- b3BlbnNzaC1rZXktdjEAAAAA"
    file.write_text(secret)
    for text in (
        f"laptop={file}",
        f"laptop={secret}",
        "laptop=/nowhere.pub",
        "laptop=/dev/zero.pub",
    ):
        code, message = refusal(yard, "user", **person, key=(text,))
        assert code == "usage" and "b3Blbn" not in message


def test_the_document_of_a_command_fits_the_schema(yard: Yard) -> None:
    said = yard.gpuaas("new", "user", "eve", "--email", "eve@corp.example", "--print")
    assert said.code == 0 and not said.document["result"]["written"]
    schema = json.loads(shipped.schemas()["problems"])
    jsonschema.Draft202012Validator(schema).validate(said.document)
    assert not (yard.folder / said.document["result"]["file"]).exists()


def test_a_fleet_without_a_state_is_asked_as_well(yard: Yard) -> None:
    """Files only: what is free is unknown then, and not nothing."""
    (yard.folder / "state/gpuaas.db").unlink()
    found = put(yard, "allocation", project="vision", sku="slice-1", name="x", owner="ana")
    assert "free: unknown" in found.facts["compute"]


def test_who_asks_for_more_than_the_project_may_hold_is_told(yard: Yard) -> None:
    """The plan decides, by what is held; the review says so before it is written."""
    given: dict[str, Any] = {"project": "vision", "sku": "whole", "owner": "ana"}
    found = draft(yard, "allocation", name="x", **given)
    assert found.facts["quota"] == "4 of 64 GPUs, 1 of 16 allocations"
    assert found.facts["rate"] == "8.40 EUR/h" and "warning" not in found.facts
    small = {**VISION, "spec": {**VISION["spec"], "quota": {"gpus": 3}}}
    yard.write(small)
    assert "may hold" in draft(yard, "allocation", name="x", **given).facts["warning"]
    data: dict[str, Any] = {"project": "vision", "class": "disk", "name": "y"}
    assert "may hold" in draft(yard, "storage", size="100", **data).facts["warning"]
    put(yard, "allocation", name="x", **given)
    assert yard.plan().blocked["allocation/vision/x"] == "quota_exceeded"


def test_documents_with_errors_are_not_offered_and_that_is_told(yard: Yard) -> None:
    yard.write({**VISION, "spec": {**VISION["spec"], "tenant": "nobody"}})
    message = refusal(yard, "allocation", project="vision")[1]
    assert "'vision' is no project" in message
    message = refusal(yard, "grant", project="nlp", allocation="x")[1]
    assert "documents have errors: gpuaas validate" in message


def test_no_state_is_written(yard: Yard) -> None:
    serial, hosts = yard.world.serial, yard.hosts()
    put(yard, "allocation", project="vision", sku="slice-1", name="x", owner="ana")
    assert (yard.world.serial, yard.hosts()) == (serial, hosts)
