"""Edits of specs in place: one value is another, and every other byte is where it was."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.model.problem import ProblemError
from reconciler.operations.edit import edit as edit_operation
from reconciler.operations.edit.contract import EditWish
from reconciler.operations.edit.edit import begin, finish
from reconciler.operations.edit.set_value import node_at, path_of, set_values, value_of
from reconciler.specs.edit import edit as writer
from tests.harness.yard import Yard, copy_of, laid, project
from tests.planner import fleet as paper

FILE = "specs/teams/vision.yaml"
VISION: dict[str, Any] = project("vision", "ana", "bo", "cem", "dana")
VISION["spec"]["entitlements"]["storageClasses"] = ["disk"]
VISION["spec"]["quota"]["storageGiB"] = 1000

TEXT = """\
# Of the vision team.\t(a tab)
apiVersion: gpuaas/v1
kind: Storage
metadata: {name: datasets,   project: vision}   # two of a kind
spec:
    class: disk
    sizeGiB: 10      # in GiB
---
# The second document.
apiVersion: "gpuaas/v1"
kind: 'Allocation'
metadata:
  name: train
  project: vision
spec:
  sku: slice-1 # one
  owner:   ana

  storage:
  - {mode: ro, name: datasets}   # only read
  # The end.
...
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Yard:
    yard = laid(
        tmp_path_factory.mktemp("edits") / "fleet",
        {"gpu01": 2},
        VISION,
        paper.storage_class("disk", directory={"path": "/srv/disk"}),
    )
    (yard.specs / "teams").mkdir()
    (yard.folder / FILE).write_text(TEXT, encoding="utf-8")
    yard.commit()
    assert not [
        one for one in yard.gpuaas("validate").document["problems"] if one["severity"] == "error"
    ]
    return yard


@pytest.fixture
def yard(made: Yard, tmp_path: Path) -> Yard:
    return copy_of(made, tmp_path / "fleet")


def content(yard: Yard) -> bytes:
    return (yard.folder / FILE).read_bytes()


def refusal(yard: Yard, ref: str, *settings: str) -> tuple[str, str]:
    before = content(yard)
    with pytest.raises(ProblemError) as refused:
        set_values(yard.fleet(), ref, settings)
    assert content(yard) == before
    problem = refused.value.problems[0]
    return problem.code, f"{problem.message} | {problem.hint}"


@pytest.mark.parametrize(
    ("ref", "setting", "old", "new"),
    [
        ("storage/vision/datasets", "spec.sizeGiB=200", "10      #", "200      #"),
        ("vision/train", "spec.owner=bo", "owner:   ana", "owner:   bo"),
        ("vision/train", "spec.sku=slice-2", "slice-1 #", "slice-2 #"),
        ("vision/train", "spec.storage[0].mode=rw", "{mode: ro,", "{mode: rw,"),
        ("vision/train", "spec.storage[datasets].mode=rw", "{mode: ro,", "{mode: rw,"),
        (
            "vision/train",
            "spec.storage[datasets].mountPath=/data/x",
            "name: datasets}",
            'name: datasets, mountPath: "/data/x"}',
        ),
    ],
)
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_value_is_put_in_the_place_of_another(
    yard: Yard, ref: str, setting: str, old: str, new: str, ends: str, mark: str
) -> None:
    """CRLF, tabs, comments, documents beside it: all else is where it was, byte for byte."""
    before = (mark + TEXT.replace("\n", ends)).encode()
    (yard.folder / FILE).write_bytes(before)
    found = set_values(yard.fleet(), ref, [setting])
    assert content(yard) == before.replace(old.encode(), new.encode(), 1)
    assert found.written and found.file == FILE
    assert sum(line.startswith("+") for line in found.patch.splitlines()) == 2


def test_what_was_not_there_stands_where_it_belongs(yard: Yard) -> None:
    set_values(yard.fleet(), "vision/train", ["spec.protect=true", "metadata.labels.team=a: b # c"])
    _, second = yaml.safe_load_all(content(yard))
    assert second["spec"]["protect"] is True
    assert second["metadata"]["labels"] == {"team": "a: b # c"}
    rest = [line for line in TEXT.splitlines() if line not in content(yard).decode().splitlines()]
    assert not rest, "no line is gone"


def test_all_values_or_none(yard: Yard) -> None:
    code, _ = refusal(yard, "vision/train", "spec.owner=bo", "spec.sku=nope")
    assert code == "dangling_reference"


@pytest.mark.parametrize(
    ("ref", "setting", "code"),
    [
        ("vision/train", "spec.sku", "usage"),
        ("vision/train", "=x", "usage"),
        ("vision/train", ".spec.sku=x", "usage"),
        ("vision/train", "spec..sku=x", "usage"),
        ("vision/train", "spec.storage[0]=x", "usage"),
        ("vision/train", "spec.storage[7].mode=rw", "usage"),
        ("vision/train", "spec.storage[none].mode=rw", "usage"),
        ("vision/train", "spec.storage[-1].mode=rw", "usage"),
        ("vision/train", "spec.sku=a\nb: c", "usage"),
        ("vision/train", "spec.sku=\x1b[2J", "usage"),
        ("vision/train", "spec.protect=yes", "usage"),
        ("vision/train", "spec.protect=perhaps", "value_type"),
        ("vision/train", "spec.protect=[a", "usage"),
        ("vision/train", "spec.protect=!!python/name:os.system x", "usage"),
        ("vision/train", "spec.protect=*a", "usage"),
        ("vision/train", "spec.sku=" + "a" * 9000, "usage"),
        ("vision/train", "spec.sku=a: b", "value_pattern"),
        ("vision/train", "spec.storage[datasets].mountPath=/data/x y", "value_pattern"),
        ("vision/train", "spec.skuu=slice-1", "field_unknown"),
        ("vision/train", "spec.owner=eve", "dangling_reference"),
        ("vision/train", "spec.storage=[]", "edit_unsound"),
        ("vision/train", "metadata.name=other", "edit_unsound"),
        ("vision/train", "metadata.project=nlp", "edit_unsound"),
        ("vision/train", "kind=Storage", "edit_unsound"),
        ("vision/train", "spec=x", "edit_unsound"),
        ("vision/trian", "spec.sku=slice-2", "not_found"),
        ("storage/vision/datasets", "spec.sizeGiB=many", "value_type"),
        ("storage/vision/datasets", "spec.sizeGiB=0", "value_range"),
    ],
)
def test_what_would_not_be_sound_is_not_written(
    yard: Yard, ref: str, setting: str, code: str
) -> None:
    assert refusal(yard, ref, setting)[0] == code


def test_the_nearest_name_is_offered(yard: Yard) -> None:
    assert "did you mean `vision/train`?" in refusal(yard, "vision/trian", "spec.sku=x")[1]
    assert "sku" in refusal(yard, "vision/train", "spec.skuu=slice-1")[1]


def test_errors_of_others_keep_nobody_from_editing(yard: Yard) -> None:
    """What is wrong elsewhere was wrong before; what is wrong with the document itself is told."""
    (yard.specs / "broken.yaml").write_text("kind: [\n")
    assert set_values(yard.fleet(), "vision/train", ["spec.owner=bo"]).written
    text = TEXT.replace("owner:   ana", "owner:   nobody")
    (yard.folder / FILE).write_text(text)
    code, _ = refusal(yard, "storage/vision/datasets", "spec.sizeGiB=-1")
    assert code == "value_range"
    assert set_values(yard.fleet(), "storage/vision/datasets", ["spec.sizeGiB=11"]).written


def test_shown_alone_or_committed_alone(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "olga")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "olga@corp.example")
    before = content(yard)
    shown = set_values(yard.fleet(), "vision/train", ["spec.owner=bo"], EditWish(write=False))
    assert (shown.written, content(yard)) == (False, before)
    words = ("git", "-C", str(yard.folder))
    applied = subprocess.run(
        [*words, "apply", "-"], input=shown.patch, text=True, capture_output=True, check=False
    )
    assert applied.returncode == 0, "it is a patch that git takes"
    subprocess.run([*words, "checkout", "-q", "--", FILE], check=True)
    done = set_values(yard.fleet(), "vision/train", ["spec.owner=bo"], EditWish(commit=True))
    subject = subprocess.check_output([*words, "show", "--stat", "--format=%s"], text=True)
    assert subject.startswith("Set spec.owner of allocation/vision/train")
    assert done.commit and FILE in subject


def test_what_is_not_in_the_commit_is_never_said_to_be(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who runs a command again whose commit failed is not told that all is done."""
    hook = yard.folder / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "olga")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "olga@corp.example")
    words = ("edit", "vision/train", "--set", "spec.owner=bo", "--commit")
    assert yard.gpuaas(*words).problems == ["commit_failed"]
    again = yard.gpuaas(*words)
    assert again.problems == ["commit_failed"] and "git add -- specs/teams" in again.messages
    assert yard.gpuaas(*words[:-1]).code == 0
    yard_git = ("git", "-C", str(yard.folder))
    subprocess.run([*yard_git, "commit", "-qnm", "x", "--", FILE], check=True)
    assert yard.gpuaas(*words).code == 0


def test_a_commit_is_of_the_file_that_a_link_leads_to(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a link git has the link alone, and nothing of what was written through it."""
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "olga")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "olga@corp.example")
    (yard.folder / FILE).with_name("alias.yaml").symlink_to("vision.yaml")
    said = yard.gpuaas("edit", "vision/train", "--set", "spec.owner=bo", "--commit")
    assert said.code == 0, said.document
    git = ("git", "-C", str(yard.folder))
    shown = subprocess.check_output([*git, "show", "--name-only", "--format="], text=True)
    assert shown.split() == [FILE]
    subprocess.run([*git, "mv", "specs", "real"], check=True)
    yard.specs.symlink_to("real")
    said = yard.gpuaas("edit", "vision/train", "--set", "spec.owner=ana", "--commit")
    assert said.code == 0, said.document


def test_without_a_repository_nothing_is_written_to_be_committed(yard: Yard) -> None:
    shutil.rmtree(yard.folder / ".git")
    before = content(yard)
    said = yard.gpuaas("edit", "vision/train", "--set", "spec.owner=bo", "--commit")
    assert said.problems == ["commit_failed"] and "nothing was written" in said.messages
    assert content(yard) == before


def test_a_patch_has_the_lines_that_git_has(yard: Yard) -> None:
    """A line that Python would break, in the midst of a text, is one."""
    text = TEXT.replace("metadata:\n", 'metadata:\n  annotations: {said: "a\u2028b\u2029c"}\n')
    (yard.folder / FILE).write_text(text, encoding="utf-8", newline="")
    shown = set_values(yard.fleet(), "vision/train", ["spec.owner=bo"], EditWish(write=False))
    words = ("git", "-C", str(yard.folder), "apply", "-")
    applied = subprocess.run(words, input=shown.patch.encode(), capture_output=True, check=False)
    assert applied.returncode == 0, applied.stderr
    assert content(yard).decode() == text.replace("owner:   ana", "owner:   bo")


def test_a_secret_is_never_repeated(yard: Yard) -> None:
    key = f"-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjE{'x' * 40}\n-----END"
    for setting in (key, f"spec.owner={key}", f"spec.{key}=1", f"spec.storage=[{key[36:60]}"):
        code, said = refusal(yard, "vision/train", setting)
        assert code == "private_key_in_spec" and "b3Blb" not in said
    code, said = refusal(yard, "vision/train", f"{'x' * 9000}\n=1")
    assert code == "usage" and len(said) < 400


def test_what_is_so_already_is_not_written(yard: Yard) -> None:
    stamp = (yard.folder / FILE).stat().st_mtime_ns
    found = set_values(yard.fleet(), "vision/train", ["spec.owner=ana"])
    assert not found.changes and not found.written
    assert (yard.folder / FILE).stat().st_mtime_ns == stamp


def test_somebody_elses_edit_is_never_written_over(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither while it is judged, nor while an editor is open, nor between two looks."""
    opened = begin(yard.fleet(), "vision/train")
    theirs = TEXT.replace("# one", "# theirs")
    (yard.folder / FILE).write_text(theirs)
    mine = TEXT.replace("owner:   ana", "owner:   bo").encode()
    with pytest.raises(ProblemError) as refused:
        finish(yard.fleet(), opened, mine, "Edit")
    assert refused.value.problems[0].code == "file_changed"
    assert content(yard).decode() == theirs

    judged = edit_operation._judged

    def meanwhile(*words: Any) -> Any:
        (yard.folder / FILE).write_text(TEXT.replace("# one", "# again"))
        return judged(*words)

    monkeypatch.setattr(edit_operation, "_judged", meanwhile)
    with pytest.raises(ProblemError) as refused:
        set_values(yard.fleet(), "vision/train", ["spec.owner=bo"])
    assert refused.value.problems[0].code == "file_changed"
    assert "# again" in content(yard).decode()


def test_a_document_that_moved_meanwhile_is_not_taken_for_another(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    def swapped(settings: Any, name: str) -> bytes:
        first, second = TEXT.split("---\n")
        return f"{second.replace('...', '').rstrip()}\n---\n{first}".encode()

    monkeypatch.setattr(edit_operation, "read_spec", swapped)
    assert refusal(yard, "vision/train", "spec.owner=bo")[0] == "file_changed"


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.partition("---")[0],
        lambda text: text.replace("name: train", "name: other"),
        lambda text: "",
    ],
)
def test_a_document_does_not_vanish_by_an_edit(yard: Yard, change: Callable[[str], str]) -> None:
    opened = begin(yard.fleet(), "vision/train")
    with pytest.raises(ProblemError) as refused:
        finish(yard.fleet(), opened, change(TEXT).encode(), "Edit")
    assert refused.value.problems[0].code in ("edit_unsound", "file_empty")
    assert content(yard).decode() == TEXT


def test_no_document_beside_it_vanishes_either(yard: Yard) -> None:
    """Whoever edits one has the whole file in the editor; what goes with it would be released."""
    opened = begin(yard.fleet(), "storage/vision/datasets")
    first = TEXT.partition("---")[0].encode()
    train = (yard.folder / FILE).with_name("train.yaml")
    with pytest.raises(ProblemError) as refused:
        finish(yard.fleet(), opened, first, "Edit")
    problem = refused.value.problems[0]
    assert problem.code == "edit_unsound" and "allocation/vision/train" in problem.message
    assert content(yard).decode() == TEXT
    train.write_text(TEXT.partition("---\n")[2])
    opened = begin(yard.fleet(), "storage/vision/datasets")
    assert finish(yard.fleet(), opened, first, "Edit").written, "it stands elsewhere by now"


def test_a_rename_says_the_old_name(yard: Yard) -> None:
    opened = begin(yard.fleet(), "vision/train")
    text = TEXT.replace("name: train", "name: other\n  formerName: train")
    assert finish(yard.fleet(), opened, text.encode(), "Edit").written


def test_a_broken_document_can_be_mended(yard: Yard) -> None:
    (yard.folder / FILE).write_text(TEXT.replace("owner:   ana", "owner:   nobody"))
    opened = begin(yard.fleet(), "vision/train")
    assert finish(yard.fleet(), opened, TEXT.encode(), "Edit").written
    assert content(yard).decode() == TEXT


def test_a_value_mends_a_document_that_is_not_the_first_of_its_file(yard: Yard) -> None:
    (yard.folder / FILE).write_text(TEXT.replace("owner:   ana", "owner:   nobody"))
    assert set_values(yard.fleet(), "vision/train", ["spec.owner=ana"]).written
    assert content(yard).decode() == TEXT


def test_a_file_that_is_a_link_out_of_the_tree_is_not_edited(yard: Yard, tmp_path: Path) -> None:
    outside = tmp_path / "outside.yaml"
    (yard.folder / FILE).rename(outside)
    (yard.folder / FILE).symlink_to(outside)
    assert refusal(yard, "vision/train", "spec.owner=bo")[0] == "not_found"
    assert outside.read_text() == TEXT


# -- paths and values


def test_paths() -> None:
    value = {"spec": {"runtimes": [{"bundle": "a"}, {"bundle": "b"}], "x": {"y": 1}}}
    assert path_of("spec.runtimes[b].version", "allocation", value) == (
        "spec", "runtimes", 1, "version",
    )  # fmt: skip
    assert path_of("spec.runtimes[0].version", "allocation", value)[2] == 0
    assert path_of("metadata.labels.app/x", "allocation", value)[-1] == "app/x"


@pytest.mark.parametrize(
    ("path", "text", "value"),
    [
        (("spec", "expiresAt"), "none", "none"),
        (("spec", "expiresAt"), "2027-01-01T00:00:00Z", "2027-01-01T00:00:00Z"),
        (("spec", "protect"), "true", True),
        (("spec", "restart", "generation"), "3", 3),
        (("spec", "access"), "[ana, bo]", ["ana", "bo"]),
        (("spec", "runtimes", 0, "version"), "2.10", "2.10"),
        (("metadata", "labels", "x"), "1", "1"),
        (("spec", "unheard"), "1", 1),
    ],
)
def test_a_value_is_read_by_its_schema(path: tuple[str | int, ...], text: str, value: Any) -> None:
    found = value_of(text, node_at("allocation", path))
    assert found == value and type(found) is type(value)


# -- attach, use


def attached(yard: Yard) -> Any:
    return list(yaml.safe_load_all(content(yard)))[1]["spec"].get("storage")


def test_attach_is_an_edit_of_the_allocation(yard: Yard) -> None:
    yard.write(paper.storage("models", "disk"))
    said = yard.gpuaas("storage", "attach", "vision/models", "--to", "train", "--mode", "ro")
    assert said.code == 0, said.document
    assert attached(yard)[1] == {"name": "models", "mode": "ro"}
    assert said.document["result"]["patch"].count("\n+") == 2, "a header, and one line"
    again = yard.gpuaas("storage", "attach", "vision/models", "--to", "vision/train")
    assert again.document["result"]["written"] is False
    yard.gpuaas("storage", "attach", "storage/vision/models", "--to", "train", "--path", "/data/m")
    assert attached(yard)[1] == {"name": "models", "mode": "ro", "mountPath": "/data/m"}
    for name, to, code in (
        ("vision/model", "train", "not_found"),
        ("nlp/models", "train", "not_found"),
        ("../models", "train", "not_found"),
        ("vision/models", "../train", "not_found"),
        ("vision/models", "nlp/train", "not_found"),
    ):
        assert yard.gpuaas("storage", "attach", name, "--to", to).problems == [code]
    bad = yard.gpuaas("storage", "attach", "vision/models", "--to", "train", "--path", "/etc")
    assert bad.problems == ["value_pattern"]


def test_only_storage_of_its_own_project_is_attached(yard: Yard) -> None:
    """In a file, a name is that of a storage of the project; that of another is not meant."""
    nlp = project("nlp", "ana")
    nlp["spec"]["entitlements"]["storageClasses"] = ["disk"]
    nlp["spec"]["quota"]["storageGiB"] = 100
    theirs = paper.storage("datasets", "disk")
    theirs["metadata"]["project"] = "nlp"
    yard.write(nlp, theirs)
    before = content(yard)
    for word, way in (("attach", "--to"), ("detach", "--from")):
        said = yard.gpuaas("storage", word, "nlp/datasets", way, "vision/train")
        assert said.problems == ["not_found"] and "vision" in said.messages
        said = yard.gpuaas("storage", word, "vision/datasets", way, "user/ana")
        assert said.problems == ["not_found"]
    said = yard.gpuaas("bundle", "drop", "tools", "--in", "user/ana")
    assert said.problems == ["not_found"]
    assert content(yard) == before


def test_a_runtime_is_an_overlay(yard: Yard) -> None:
    """LCH-08: the name and the identity of an allocation stay whatever it runs."""
    fits = {"gpuVendor": "nvidia", "families": ["h100"], "driverMin": "1.1"}
    versions = [{"version": one, "compatible": fits} for one in ("1.0", "1.1")]
    spec = {"displayName": "Tools", "supportLevel": "supported", "versions": versions}
    yard.write(paper.document("Bundle", "tools", spec))
    assert yard.gpuaas("bundle", "use", "tools@1.0", "--in", "vision/train").code == 0
    before = list(yaml.safe_load_all(content(yard)))
    assert before[1]["spec"]["runtimes"] == [{"bundle": "tools", "version": "1.0"}]
    said = yard.gpuaas("bundle", "use", "tools", "--in", "vision/train")
    assert said.document["result"]["patch"].count("\n-") == 1, "one line in the place of one"
    after = list(yaml.safe_load_all(content(yard)))
    assert after[1]["spec"].pop("runtimes") == [{"bundle": "tools", "version": "1.1"}]
    before[1]["spec"].pop("runtimes")
    assert after == before
    wrong = yard.gpuaas("bundle", "use", "tools@9", "--in", "vision/train")
    assert wrong.problems == ["bundle_version_unknown"]


def test_detach_takes_out_what_attach_put_in(yard: Yard) -> None:
    yard.write(paper.storage("models", "disk"))
    before = content(yard)
    yard.gpuaas("storage", "attach", "vision/models", "--to", "train")
    said = yard.gpuaas("storage", "detach", "vision/models", "--from", "train")
    assert said.code == 0 and content(yard) == before
    said = yard.gpuaas("storage", "detach", "vision/datasets", "--from", "vision/train")
    assert attached(yard) == [] and "# The end." in content(yard).decode()
    again = yard.gpuaas("storage", "detach", "vision/datasets", "--from", "train")
    assert again.code == 0 and not again.document["result"]["written"]
    assert yard.gpuaas("storage", "detach", "../x", "--from", "train").problems == ["not_found"]


def test_a_dropped_runtime_is_gone_in_every_version(yard: Yard) -> None:
    versions = [{"version": one} for one in ("1.0", "1.1")]
    spec = {"displayName": "Tools", "supportLevel": "supported", "versions": versions}
    yard.write(paper.document("Bundle", "tools", spec))
    text = TEXT.replace(
        "  # The end.",
        '  runtimes: [{bundle: tools, version: "1.0"}, {bundle: tools, version: "1.1"}]',
    )
    (yard.folder / FILE).write_text(text)
    yard.gpuaas("bundle", "drop", "tools@1.1", "--in", "vision/train")
    assert b'runtimes: [{bundle: tools, version: "1.0"}]' in content(yard)
    (yard.folder / FILE).write_text(text)
    yard.gpuaas("bundle", "drop", "tools", "--in", "vision/train")
    assert b"runtimes: []" in content(yard)
    said = yard.gpuaas("bundle", "drop", "tool", "--in", "vision/train")
    assert said.code == 0 and not said.document["result"]["written"]


def test_a_grant_is_a_file_of_its_own(yard: Yard) -> None:
    words = ("grant", "add", "bo", "vision/train", "--expires", "24h", "--reason", "NCCL: it hangs")
    said = yard.gpuaas(*words)
    assert said.code == 0, said.document
    result = said.document["result"]
    assert result["ref"] == "grant/vision/bo-on-train"
    spec = yaml.safe_load((yard.folder / result["file"]).read_text())["spec"]
    assert (spec["user"], spec["allocation"], spec["reason"]) == ("bo", "train", "NCCL: it hangs")
    second = yard.gpuaas(*words, "--key", "desk")
    assert second.document["result"]["ref"] == "grant/vision/bo-on-train-2"
    assert "USER" in yard.gpuaas("grant", "add", "ana", *words[3:]).messages
    assert yard.gpuaas("grant", "add", "eve", *words[3:]).problems == ["usage"]
    assert yard.gpuaas("grant", "add", "bo", "vision/no", *words[4:]).problems == ["not_found"]


def test_the_writer_is_one(yard: Yard) -> None:
    """An edit without a change leaves the file to itself, whoever makes it."""
    name = FILE
    before = content(yard)
    writer.put_over(yard.fleet().settings, name, before, before)
    assert content(yard) == before
