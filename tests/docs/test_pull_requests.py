"""What docs/pull-requests.md gives to a forge: the lines of both files run, and the hook does."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml

from reconciler.cli.views.comparison_markdown import MARK, MOST
from tests.harness.yard import Yard, laid
from tests.planner import fleet as paper

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "pull-requests.md"
BLOCK = re.compile(r"^```yaml\n(.*?)^```", re.DOTALL | re.MULTILINE)
REMOTE, LOCAL, GITHUB, GITLAB = (yaml.safe_load(one) for one in BLOCK.findall(PAGE.read_text()))
(HOOK,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())

TRAIN = paper.allocation("train", "slice-1", owner="ana", access=["ana"], expiresAt=paper.LASTING)
SECOND = paper.allocation("second", "slice-1", owner="ana", expiresAt=paper.LASTING)

GH = """#!{python}
import json, os, sys
from pathlib import Path
words, place = sys.argv[1:], Path(os.environ["FORGE"])
comments = json.loads(place.read_text())
assert words[0] == "api" and os.environ["GH_TOKEN"] == "token"
if "--jq" in words:
    assert "--paginate" in words and "env.MARK" in words[words.index("--jq") + 1]
    ours = [one for one in comments if one["user"] == "github-actions[bot]"]
    print(*(one["id"] for one in ours if one["body"].startswith(os.environ["MARK"])), sep="\\n")
else:
    method, path = words[words.index("--method") + 1], words[words.index("--method") + 2]
    body = Path(words[words.index("-F") + 1].removeprefix("body=@")).read_text()
    if method == "POST":
        comments.append({{"id": len(comments), "user": "github-actions[bot]", "body": body}})
    else:
        comments[int(path.rpartition("/")[2])]["body"] = body
    place.write_text(json.dumps(comments))
    print("{{}}")
"""


@pytest.fixture(scope="module")
def pulled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Yard, Path]:
    """A clone with the merge of a branch in hand, and a copy of the state; not to be changed."""
    folder = tmp_path_factory.mktemp("pull")
    yard = laid(folder / "fleet", {"gpu01": 2}, TRAIN)
    assert yard.plan("--refresh").code == 0
    assert yard.apply().code == 0
    assert yard.gpuaas("state", "backup", str(folder / "state.db")).code == 0
    git(yard.folder, "branch", "-f", "target")
    git(yard.folder, "checkout", "-qb", "feature")
    yard.write(SECOND)
    yard.commit("ana")
    git(yard.folder, "checkout", "-q", "target")
    git(yard.folder, "merge", "-q", "--no-ff", "--no-edit", "feature")
    subprocess.run(["git", "clone", "-q", yard.folder, folder / "clone"], check=True)
    git(folder / "clone", "checkout", "-q", "--detach", "HEAD")
    return Yard(folder / "clone"), folder / "state.db"


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=m", "-c", "user.email=m@x")
    return subprocess.check_output(["git", "-C", folder, *who, *words], text=True).strip()


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """What a runner has on its path: gpuaas, and a stand-in for gh."""
    folder = tmp_path / "bin"
    folder.mkdir()
    gpuaas = f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(ROOT)!r})\n"
    (folder / "gpuaas").write_text(gpuaas + "from reconciler.cli.start import main\nmain()\n")
    (folder / "gh").write_text(GH.format(python=sys.executable))
    (folder / "pip").write_text('#!/bin/sh\ntest "$1" = install && test "$2" = the-package\n')
    for path in folder.iterdir():
        path.chmod(0o755)
    return folder


@pytest.fixture
def clone(pulled: tuple[Yard, Path], tmp_path: Path) -> Path:
    folder = tmp_path / "clone"
    shutil.copytree(pulled[0].folder, folder, symlinks=True)
    return folder


def ran(script: str, folder: Path, programs: Path, **environment: str) -> int:
    path = f"{programs}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=folder,
        env={**os.environ, **environment, "PATH": path},
        capture_output=True,
        text=True,
    )
    print(done.stdout, done.stderr)
    return done.returncode


def step(job: str, name: str) -> Mapping[str, Any]:
    steps = GITHUB["jobs"][job]["steps"]
    found: Mapping[str, Any] = next(one for one in steps if one.get("name") == name)
    return found


class Forge:
    """A job on GitHub: each step with the environment that the file gives to it."""

    def __init__(self, folder: Path, programs: Path, state: str) -> None:
        self.folder, self.programs = folder, programs
        self.comments, self.output = folder.parent / "forge.json", folder.parent / "output"
        self.comments.write_text(
            json.dumps([{"id": 0, "user": "mallory", "body": f"<!-- {MARK} -->\nmine"}])
        )
        self.output.touch()
        self.values = {
            "${{ vars.GPUAAS_PACKAGE }}": "the-package",
            "${{ secrets.GPUAAS_STATE_URL }}": state,
            "${{ github.token }}": "token",
            "${{ github.event.pull_request.number }}": "7",
        }

    def __call__(self, job: str, name: str) -> int:
        found = step(job, name)
        code = dict(line.split("=") for line in self.output.read_text().split()).get("code", "")
        values = {**self.values, "${{ steps.plan.outputs.code }}": code}
        given = {key: values[value] for key, value in found.get("env", {}).items()}
        return ran(
            found["run"],
            self.folder,
            self.programs,
            GITHUB_BASE_REF="target",
            GITHUB_REPOSITORY="corp/fleet",
            GITHUB_OUTPUT=str(self.output),
            GITHUB_STEP_SUMMARY=str(self.folder.parent / "summary"),
            FORGE=str(self.comments),
            **given,
        )

    @property
    def bodies(self) -> list[str]:
        return [one["body"] for one in json.loads(self.comments.read_text())]


@pytest.mark.walk
def test_the_lines_for_github(pulled, clone: Path, programs: Path) -> None:
    forge = Forge(clone, programs, str(pulled[1]))
    for job in ("validate", "plan"):
        assert forge(job, "Install") == 0
    assert forge("validate", "Validate") == 0
    for _ in range(2):
        assert forge("plan", "Plan") == 0
        assert forge("plan", "Comment") == 0
        assert forge("plan", "Fail on errors") == 0
        mine, ours = forge.bodies
        assert mine.endswith("mine") and len(ours) <= MOST
        assert ours.startswith(f"<!-- {MARK} -->\n### gpuaas plan against `target`")
        assert "allocation/vision/second" in ours and "1 to create" in ours


@pytest.mark.walk
def test_errors_are_commented_and_fail(pulled, clone: Path, programs: Path) -> None:
    Yard(clone).write({**SECOND, "colour": "red"})
    forge = Forge(clone, programs, str(pulled[1]))
    assert forge("validate", "Validate") == 1
    assert (forge("plan", "Plan"), forge("plan", "Comment")) == (0, 0)
    assert "field_unknown" in forge.bodies[1]
    assert forge("plan", "Fail on errors") == 1


@pytest.mark.walk
def test_without_a_state_nothing_is_commented(clone: Path, programs: Path) -> None:
    assert Forge(clone, programs, "https://127.0.0.1:1/x")("plan", "Plan") == 1


def test_a_fork_gets_nothing() -> None:
    """Secrets and a token that writes are in one job, which a fork's branch never reaches."""
    assert GITHUB[True] == {"pull_request": None}
    assert GITHUB["permissions"] == {"contents": "read"}
    validate, plan = GITHUB["jobs"]["validate"], GITHUB["jobs"]["plan"]
    assert "secrets" not in str(validate) and "permissions" not in validate
    assert plan["if"] == "github.event.pull_request.head.repo.full_name == github.repository"
    assert plan["permissions"] == {"contents": "read", "pull-requests": "write"}
    (rule,) = GITLAB["gpuaas-plan"]["rules"]
    assert "$CI_MERGE_REQUEST_SOURCE_PROJECT_ID == $CI_PROJECT_ID" in rule["if"]
    assert "_URL" not in str(GITLAB["gpuaas-validate"]) + str(GITLAB[".gpuaas"])


def test_nothing_of_a_pull_request_is_pasted_into_a_script() -> None:
    for job in GITHUB["jobs"].values():
        for one in job["steps"]:
            assert "${{" not in one.get("run", "")
            if "uses" in one:
                assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", one["uses"])
            if "checkout" in one.get("uses", ""):
                assert one["with"] == {"fetch-depth": 0, "persist-credentials": False}


@contextmanager
def gitlab(notes: list[dict[str, Any]]) -> Iterator[str]:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.endswith("/user"):
                return self.say({"id": 5})
            page = int(self.path.rpartition("page=")[2])
            return self.say(notes[page - 1 : page])

        def do_POST(self) -> None:
            notes.append({"id": len(notes), "author": {"id": 5}, **self.body()})
            self.say(notes[-1])

        def do_PUT(self) -> None:
            notes[int(self.path.rpartition("/")[2])].update(self.body())
            self.say({})

        def body(self) -> dict[str, Any]:
            found: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            return found

        def say(self, what: object) -> None:
            assert self.headers["PRIVATE-TOKEN"] == "token"
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(what).encode())

        def log_message(self, *words: object) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Answer)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.walk
@pytest.mark.parametrize("merged", [True, False])
def test_the_lines_for_gitlab(pulled, clone: Path, programs: Path, merged: bool) -> None:
    notes = [{"id": 0, "author": {"id": 6}, "body": f"<!-- {MARK} -->\nmine"}]
    base = git(clone, "rev-parse", "HEAD^1")
    if not merged:
        git(clone, "checkout", "-q", "--detach", "HEAD^2")
    given = {
        "GPUAAS_PACKAGE": "the-package",
        "GPUAAS_STATE_URL": str(pulled[1]),
        "GPUAAS_COMMENT_TOKEN": "token",
        "CI_PROJECT_ID": "3",
        "CI_MERGE_REQUEST_IID": "9",
        "CI_MERGE_REQUEST_TARGET_BRANCH_SHA": base if merged else "",
        "CI_MERGE_REQUEST_DIFF_BASE_SHA": base,
    }
    before = GITLAB[".gpuaas"]["before_script"]
    assert (
        ran("\n".join([*before, *GITLAB["gpuaas-validate"]["script"]]), clone, programs, **given)
        == 0
    )
    lines = "\n".join([*before, *GITLAB["gpuaas-plan"]["script"]])
    with gitlab(notes) as address:
        for _ in range(2):
            assert ran(lines, clone, programs, CI_API_V4_URL=address, **given) == 0
    assert [one["author"]["id"] for one in notes] == [6, 5]
    assert "allocation/vision/second" in notes[1]["body"]


@pytest.mark.walk
def test_the_hook_checks_the_whole_fleet(clone: Path, programs: Path) -> None:
    """A file that goes away takes nothing of the hook with it: it is called for no file."""
    assert HOOK["always_run"] and not HOOK["pass_filenames"]
    assert ran(HOOK["entry"], clone, programs) == 0
    (clone / "specs/user/ana.yaml").unlink()
    assert ran(HOOK["entry"], clone, programs) == 1
    assert ran(f"{HOOK['entry']} -C {clone}", clone.parent, programs) == 1


def test_both_ways_to_the_hook_are_the_same() -> None:
    (hook,) = LOCAL["repos"][0]["hooks"]
    assert all(HOOK[word] == hook[word] for word in hook if word != "language")
    assert REMOTE["repos"][0]["hooks"] == [{"id": HOOK["id"]}]


@pytest.mark.parametrize("name", ["github-workflows", "gitlab-ci"])
def test_the_files_fit_the_published_schemas(name: str, tmp_path: Path) -> None:
    program = shutil.which("check-jsonschema")
    if program is None:
        pytest.skip("check-jsonschema is not installed")
    file = tmp_path / "file.yml"
    file.write_text(BLOCK.findall(PAGE.read_text())[2 if "github" in name else 3])
    subprocess.run([program, "--builtin-schema", f"vendor.{name}", file], check=True)
