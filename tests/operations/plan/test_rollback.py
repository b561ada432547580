"""`rollback`: documents as they stood, by patch, files or commit; what is shut stays shut."""

from __future__ import annotations

import io
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from getpass import getuser
from typing import Any

import pytest
import yaml

from reconciler.cli.main import run
from reconciler.model.problem import refuse
from reconciler.operations.plan import rollback
from reconciler.specs.edit.edit import put
from tests.harness.applied_fleet import BO, BOX, GRANTS, SOLO, TRAIN
from tests.harness.yard import Said, Yard
from tests.journeys.access.test_key_files import changed
from tests.planner import fleet as paper

pytestmark = pytest.mark.walk

MORE = "apiVersion: gpuaas/v1\nkind: Project\nmetadata: {name: more}\nspec:\n"
MORE += "  tenant: corp\n  members: [{user: olga, role: owner}]\n"


def git(yard: Yard, *words: str) -> str:
    return subprocess.check_output(["git", "-C", yard.folder, *words], text=True).strip()


@pytest.fixture
def then(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> str:
    """The commit of the applied fleet; whoever rolls back is olga."""
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "olga")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "olga@corp.example")
    git(yard, "config", "user.name", "olga")
    git(yard, "config", "user.email", "olga@corp.example")
    return git(yard, "rev-parse", "HEAD")


def back(yard: Yard, *words: str) -> Said:
    return yard.gpuaas("rollback", *words)


def deeds(said: Said) -> dict[str, str]:
    return {one["ref"]: one["deed"] for one in said.document["result"]["reverted"]}


def texts(said: Said, word: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in said.document["result"][word]:
        found.setdefault(one["ref"], []).append(one["text"])
    return found


def shown(yard: Yard, *words: str) -> tuple[int, str, str]:
    out, told = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(told):
        code = run(["-C", str(yard.folder), "rollback", *words])
    return code, out.getvalue(), told.getvalue()


def read(yard: Yard, document: Any) -> Any:
    return yaml.safe_load(yard.file(document).read_text())


def test_a_change_is_taken_back(yard: Yard, then: str) -> None:
    yard.write(changed(TRAIN, access=["ana"]), changed(SOLO, protect=False))
    yard.commit("olga")
    hosts, tree = yard.hosts(), git(yard, "status", "--short")
    found = back(yard, "vision/solo", "--to", then)
    assert (found.code, deeds(found)) == (0, {"allocation/vision/solo": "changed"})
    assert found.document["result"]["plan"]["against"]["revision"] == "HEAD"
    assert (yard.hosts(), git(yard, "status", "--short")) == (hosts, tree)
    assert read(yard, SOLO)["spec"]["protect"] is False


def test_the_patch_applies_and_does_just_that(yard: Yard, then: str) -> None:
    yard.remove(BOX)
    yard.write(changed(SOLO, protect=False))
    yard.commit("olga")
    code, patch, told = shown(yard, "--all", "--to", then, "-o", "patch")
    assert code == 0 and "let in" in told
    subprocess.run(
        ["git", "-C", yard.folder, "apply", "--index"], input=patch, text=True, check=True
    )
    assert git(yard, "diff", "--stat", then, "--", "specs") == ""


def test_a_removed_allocation_comes_back_without_its_data(yard: Yard, then: str) -> None:
    yard.remove(BOX)
    assert yard.apply().code == 0
    found = back(yard, "nlp/box", "--to", then, "--write")
    assert deeds(found) == {"allocation/nlp/box": "put_back"}
    assert "home and scratch" in str(texts(found, "lost")["allocation/nlp/box"])
    assert texts(found, "opens") == {"allocation/nlp/box": ["bo"]}
    (line,) = found.document["result"]["plan"]["changes"]
    assert (line["ref"], line["action"]) == ("allocation/nlp/box", "create")
    assert (line["origin"]["commit"], line["origin"]["author"]) == ("", getuser())
    assert read(yard, BOX) == BOX


def test_what_was_not_there_then_is_taken_out(yard: Yard, then: str) -> None:
    extra = paper.allocation("extra", "slice-1", owner="ana", expiresAt=paper.LASTING)
    yard.write(extra)
    yard.commit("olga")
    found = back(yard, "vision/extra", "--to", then, "--commit")
    assert deeds(found) == {"allocation/vision/extra": "taken_out"}
    assert not yard.file(extra).exists()
    assert (
        git(yard, "log", "-1", "--format=%an %s")
        == f"olga Roll back allocation/vision/extra to {then[:7]}"
    )
    assert found.document["result"]["commit"] == git(yard, "rev-parse", "HEAD")
    assert not git(yard, "status", "--short", "specs")


def test_only_its_document_changes_in_a_file_of_many(yard: Yard) -> None:
    """Comments, order and edits of the others stay, whatever has become of them since."""
    file = yard.specs / "many.yaml"
    head, one = "# ours\n", MORE
    other = MORE.replace("more", "other")
    file.write_text(f"{head}---\n{one}---\n# the other\n{other}")
    yard.commit("olga")
    then = git(yard, "rev-parse", "HEAD")
    file.write_text(
        f"{head}---\n# new\n{other}  quota: {{gpus: 1}}\n---\n{one}  quota: {{gpus: 2}}\n"
    )
    yard.commit("olga")
    assert back(yard, "project/more", "--to", then, "--write").code == 0
    assert file.read_text() == f"{head}---\n# new\n{other}  quota: {{gpus: 1}}\n---\n{one}"
    git(yard, "checkout", "--", "specs")
    file.write_text(f"{head}---\n{other}")
    yard.commit("olga")
    assert back(yard, "project/more", "--to", then, "--write", "--with-access").code == 0
    assert file.read_text() == f"{head}---\n{other}---\n{one}"


def test_it_is_changed_where_it_is_now(yard: Yard, then: str) -> None:
    yard.file(SOLO).unlink()
    place = yard.specs / "moved/here.yaml"
    place.parent.mkdir()
    place.write_text(yaml.safe_dump(changed(SOLO, protect=False)))
    yard.commit("olga")
    assert back(yard, "vision/solo", "--to", then, "--write").code == 0
    assert yaml.safe_load(place.read_text()) == SOLO and not yard.file(SOLO).exists()


def test_what_was_shut_since_stays_shut(yard: Yard, then: str) -> None:
    """Keys, people, members, grants and access: named and left as they are, the rest goes back."""
    yard.write(
        {**BO, "spec": {**BO["spec"], "keys": BO["spec"]["keys"][:1]}},
        changed(TRAIN, access=["ana"]),
        changed(SOLO, protect=False),
    )
    yard.commit("olga")
    yard.remove(GRANTS[1])
    for ref in ("user/bo", "vision/train", "grant/vision/cem-on-solo"):
        refused = back(yard, ref, "--to", then, "--write")
        assert refused.problems == ["rollback_opens_access"]
    assert not git(yard, "status", "--short", "specs")
    found = back(yard, "--all", "--to", then, "--write")
    assert found.code == 5
    assert deeds(found) == {"allocation/vision/solo": "changed"}
    assert texts(found, "excluded").keys() == {
        "user/bo",
        "allocation/vision/train",
        "grant/vision/cem-on-solo",
    }
    assert len(read(yard, BO)["spec"]["keys"]) == 1 and not yard.file(GRANTS[1]).exists()
    git(yard, "checkout", "--", "specs")
    found = back(yard, "--all", "--to", then, "--write", "--with-access")
    assert found.code == 0 and not texts(found, "excluded")
    assert texts(found, "opens").keys() >= {"user/bo", "allocation/vision/train"}
    git(yard, "add", "specs")
    assert git(yard, "diff", "--stat", then, "--", "specs") == ""


def test_who_is_shut_out_in_a_file_of_many_stays_so(yard: Yard) -> None:
    """The rest of the file goes back around it."""
    file, user = yard.specs / "many.yaml", yaml.safe_dump(paper.user("eve", "laptop"))
    file.write_text(f"{user}---\n{MORE}")
    yard.commit("olga")
    then = git(yard, "rev-parse", "HEAD")
    shut = user.rstrip("\n") + "\n  state: suspended\n"
    file.write_text(f"{shut}---\n{MORE}  quota: {{gpus: 1}}\n")
    yard.commit("olga")
    assert back(yard, "--all", "--to", then, "--write").code == 5
    assert file.read_text() == f"{shut}---\n{MORE}"


def test_what_cannot_be_read_may_shut_somebody_out(yard: Yard, then: str) -> None:
    yard.file(BO).write_text("kind: User\nmetadata: {name: bo}\nspec: {state: suspended\n")
    yard.commit("olga")
    assert back(yard, "--all", "--to", then, "--write").problems == ["yaml_syntax"]
    assert back(yard, "--all", "--to", then, "--write", "--with-access").code == 0


def test_all_is_that_very_tree(yard: Yard, then: str) -> None:
    (yard.specs / "notes.txt").write_text("x")
    extra = paper.allocation("extra", "slice-1", owner="ana", expiresAt=paper.LASTING)
    yard.write(extra, changed(SOLO, protect=False))
    yard.commit("olga")
    yard.remove(BOX)
    assert back(yard, "--all", "--to", then, "--commit", "--with-access").code == 0
    assert git(yard, "diff", "--stat", then, "HEAD", "--", "specs") == ""
    assert git(yard, "rev-list", "--count", f"{then}..HEAD") == "4"
    assert back(yard, "--all", "--to", then).document["result"]["files"] == []


def test_to_a_time(yard: Yard, then: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, day in enumerate(("2037-01-02", "2037-01-04")):
        for role in ("AUTHOR", "COMMITTER"):
            monkeypatch.setenv(f"GIT_{role}_DATE", f"{day}T00:00:00Z")
        yard.write(changed(SOLO, protect=bool(number)))
        yard.commit("olga")
    first = git(yard, "rev-parse", "HEAD^")
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.delenv(f"GIT_{role}_DATE")
    found = back(yard, "vision/solo", "--to", "2037-01-03T00:00:00Z")
    assert found.document["result"]["to"] == first
    found = back(yard, "vision/solo", "--to", "1999-01-03T00:00:00Z")
    assert found.problems == ["revision_unknown"] and "from before that" in found.messages


def test_a_side_of_a_merge_is_no_time_of_this_branch(yard: Yard, then: str) -> None:
    git(yard, "checkout", "-qb", "side")
    yard.write(changed(SOLO, protect=False))
    yard.commit("olga")
    side = git(yard, "rev-parse", "HEAD")
    git(yard, "checkout", "-q", "-")
    assert back(yard, "vision/solo", "--to", side).problems == ["revision_elsewhere"]
    git(yard, "merge", "-q", "--no-ff", "--no-edit", "side")
    assert back(yard, "vision/solo", "--to", side).code == 0
    git(yard, "reset", "-q", "--hard", "HEAD^")
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert back(yard, "vision/solo", "--to", now).document["result"]["to"] == then


def test_refusals_write_nothing(yard: Yard, then: str) -> None:
    yard.write(changed(SOLO, protect=False))
    yard.commit("olga")
    for words, code in (
        (("vision/none", "--to", then), "not_found"),
        (("vision/solo", "--to", "nope"), "revision_unknown"),
        (("vision/solo", "--to=-x"), "revision_unknown"),
        (("vision/solo", "--to", "2026-11-28"), "revision_unknown"),
    ):
        assert back(yard, *words, "--write").problems == [code]
    yard.file(SOLO).write_text(yard.file(SOLO).read_text() + "# mine\n")
    assert back(yard, "vision/solo", "--to", then, "--write").problems == ["file_uncommitted"]
    assert yard.file(SOLO).read_text().endswith("# mine\n")
    git(yard, "checkout", "--", "specs")
    (yard.folder / ".git/MERGE_HEAD").write_text("0" * 40)
    for way in ("--write", "--commit"):
        assert back(yard, "vision/solo", "--to", then, way).problems == ["git_under_way"]
    assert read(yard, SOLO)["spec"]["protect"] is False


def test_a_shallow_clone_says_so(yard: Yard, then: str, tmp_path_factory) -> None:
    yard.write(changed(SOLO, protect=False))
    yard.commit("olga")
    clone = tmp_path_factory.mktemp("clone") / "fleet"
    git(yard, "clone", "-q", "--depth=1", f"file://{yard.folder}", str(clone))
    for to in (then, "2020-01-01T00:00:00Z"):
        found = back(Yard(clone), "vision/solo", "--to", to)
        assert found.problems == ["revision_unknown"] and "unshallow" in found.messages


def test_another_name_since_is_no_text(yard: Yard, then: str) -> None:
    new = {**SOLO, "metadata": {**SOLO["metadata"], "name": "alone", "formerName": "solo"}}
    yard.file(SOLO).unlink()
    yard.write(new)
    yard.commit("olga")
    for ref in ("vision/alone", "vision/solo"):
        found = back(yard, ref, "--to", then, "--write")
        assert found.problems == ["rollback_renamed"] and "rename it back" in found.messages
    found = back(yard, "--all", "--to", then)
    assert "rename it back" in str(texts(found, "lost")["allocation/vision/alone"])


@pytest.mark.parametrize(
    "words",
    [
        ("--to", "HEAD"),
        ("vision/solo", "--all", "--to", "HEAD"),
        ("vision/solo",),
        ("vision/solo", "--to", "HEAD", "--write", "--commit"),
        ("no ref", "--to", "HEAD"),
    ],
)
def test_usage(yard: Yard, words: tuple[str, ...]) -> None:
    assert back(yard, *words).code == 64


def test_as_text(yard: Yard, then: str) -> None:
    yard.remove(BOX)
    code, out, _ = shown(yard, "nlp/box", "--to", then)
    assert code == 0
    for words in ("to roll back to", "put back", "! OPENS (1)", "+kind: Allocation", "-o patch"):
        assert words in out
    code, out, _ = shown(yard, "nlp/box", "--to", then, "--commit")
    assert "Committed as" in out and "gpuaas apply" in out
    assert "nothing: it stands" in shown(yard, "nlp/box", "--to", then)[1]


def test_the_fleet_in_a_folder_of_its_repository(yard: Yard, tmp_path_factory) -> None:
    """Names are those of the fleet, paths of the patch those of the repository."""
    top = tmp_path_factory.mktemp("top")
    subprocess.run(["cp", "-a", yard.folder, top / "inner"], check=True)
    subprocess.run(["rm", "-rf", top / "inner/.git"], check=True)
    inner = Yard(top / "inner")
    who = ("-c", "user.name=olga", "-c", "user.email=olga@corp.example")

    def commit() -> str:
        for words in (("init", "-q"), ("add", "inner/specs", "inner/gpuaas.yaml")):
            subprocess.run(["git", "-C", top, *words], check=True)
        subprocess.run(["git", "-C", top, *who, "commit", "-qm", "x"], check=True)
        return subprocess.check_output(["git", "-C", top, "rev-parse", "HEAD"], text=True).strip()

    then = commit()
    inner.write(changed(SOLO, protect=False))
    commit()
    found = back(inner, "vision/solo", "--to", then, "--write")
    assert found.code == 0 and "a/inner/specs/allocation" in found.document["result"]["patch"]
    assert read(inner, SOLO) == SOLO


def test_one_that_cannot_be_written_says_which_were(
    yard: Yard, then: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    yard.write(changed(SOLO, protect=False), changed(TRAIN, protect=True))
    yard.commit("olga")

    def full(settings: object, name: str, content: bytes | None) -> None:
        if "train" in name:
            raise refuse("file_unreadable", "full")
        put(settings, name, content)  # type: ignore[arg-type]

    monkeypatch.setattr(rollback, "put", full)
    found = back(yard, "--all", "--to", then, "--write")
    assert found.problems == ["file_unreadable"]
    assert "specs/allocation/vision/solo.yaml was written before that" in found.messages
