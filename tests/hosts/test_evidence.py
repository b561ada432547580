"""Observations: real ones of folders, and what hostile or broken answers become."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from reconciler.hosts.answers import AnswerError, read_answer, read_json
from reconciler.hosts.evidence import MAX_ANSWER, observe
from reconciler.model.codec import encode
from reconciler.model.host.evidence import GpuFact, NodeFacts, Observation, ProbeProblem
from tests.harness.directory_host import host, options

AT = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)
FULL = NodeFacts(
    source="host",
    machine_id="a" * 32,
    boot_id="b",
    gpus=(GpuFact(uuid="GPU-1", pci_address="0000:0a:00.0", model="H100", processes=(1, 2)),),
    nvmes=("nvme-1",),
    paths={"/home/x": "dir 0700"},
    problems=(ProbeProblem(probe="os", message="unknown"),),
)


def answering(folder: Path, code: str) -> Path:
    """A folder of playbooks whose observe code is this."""
    place = folder / "playbooks/module_utils/gpuaas"
    place.mkdir(parents=True)
    (place / "observe.py").write_text(code)
    return folder / "playbooks"


def asked(tmp_path: Path, code: str, **more: Any) -> Observation:
    chosen = options(tmp_path, playbooks=answering(tmp_path, code), **more)
    (observation,) = observe([host(tmp_path)], chosen, at=AT)
    return observation


def test_folders_answer_for_themselves_in_the_order_asked(tmp_path: Path) -> None:
    roots = [tmp_path / f"n{number}" for number in range(3)]
    for number, root in enumerate(roots):
        (root / "home" / f"user-{number}").mkdir(parents=True)
    hosts = [host(root, node=root.name) for root in roots]
    seen = observe(hosts, options(tmp_path), at=AT)
    assert [one.node for one in seen] == ["n0", "n1", "n2"]
    for number, one in enumerate(seen):
        assert one.at == "2026-11-27T12:00:00Z"
        assert one.facts is not None and list(one.facts.paths or ()) == [f"/home/user-{number}"]
        assert one.facts.gpus is None and one.facts.sessions is None
        assert one.digest.startswith("sha256:") and not one.problem


def test_a_root_folder_that_is_not_there_is_no_empty_host(tmp_path: Path) -> None:
    """F-ANS-03: the answer is missing, not empty, and no other host suffers."""
    (tmp_path / "there").mkdir()
    hosts = [host(tmp_path / "gone", node="n0"), host(tmp_path / "there", node="n1")]
    gone, there = observe(hosts, options(tmp_path), at=AT)
    assert (gone.problem, gone.facts) == ("host_unreachable", None)
    assert "is not there" in gone.message
    assert there.facts is not None


def test_what_the_observe_code_says_is_what_the_model_holds(tmp_path: Path) -> None:
    seen = asked(tmp_path, f"print({json.dumps(json.dumps(encode(FULL)))})")
    assert seen.facts == FULL


def test_braces_in_facts_arrive_as_they_are(tmp_path: Path) -> None:
    """F-ANS-01: what a host returns as a fact is never evaluated."""
    marker = tmp_path / "marker"
    order = f"{{{{ lookup('pipe', 'touch {marker}') }}}} {{{{ {{% raw"
    seen = asked(tmp_path, f"print({json.dumps(json.dumps({'source': 'host', 'os': order}))})")
    assert seen.facts is not None and seen.facts.os == order
    assert not marker.exists()


def test_keys_without_a_word_in_the_model_are_dropped_and_told(tmp_path: Path) -> None:
    """PLC-19: node-local code invents no product model."""
    gpu = {"uuid": "GPU-1", "pciAddress": "x", "model": "m", "tier": "gold"}
    value = {"source": "host", "priority": 7, "gpus": [gpu]}
    seen = asked(tmp_path, f"print({json.dumps(json.dumps(value))})")
    assert seen.facts is not None
    told = [problem.message for problem in seen.facts.problems]
    assert told == [
        "unknown key dropped: facts.priority",
        "unknown key dropped: facts.gpus[0].tier",
    ]


HOSTILE = [
    b"",
    b"[]",
    b"null",
    b"{}",
    b"{" * 100_000,
    b"[" * 100_000,
    b"\xff\xfe",
    b'{"source": "host"} {"source": "host"}',
    b'{"source": "imaginary"}',
    b'{"source": "host", "memoryMiB": NaN}',
    b'{"source": "host", "memoryMiB": -1}',
    b'{"source": "host", "memoryMiB": true}',
    b'{"source": "host", "memoryMiB": 1.5}',
    b'{"source": "host", "memoryMiB": ' + b"9" * 40 + b"}",
    b'{"source": "host", "gpus": {}}',
    b'{"source": "host", "gpus": "GPU-1"}',
    b'{"source": "host", "gpus": [{"uuid": "GPU-1"}]}',
    b'{"source": "host", "paths": {"/a": null}}',
    b'{"source": "host", "paths": {"/a\\u001b[2J": "dir 0700"}}',
    b'{"source": "host", "os": "\\u001b]0;owned\\u0007"}',
    b'{"source": "host", "os": "' + b"a" * 5000 + b'"}',
]


HOSTILE += [
    b'{"source": "host", "os": "a", "os": "b"}',
    b'{"source": "host", "os": "\\ud800"}',
    b'{"source": "host", "os": "\\u202e"}',
    b'{"source": "host", "os": "a\\u0000"}',
    b'{"source": "host", "os": "a\\u200b"}',
    b'{"source": "host", "memoryMiB": 1e999}',
    b'{"source": "host", "memoryMiB": ' + b"9" * 5000 + b"}",
    b'{"source": "host", "x": [' + b"0," * 60_000 + b"0]}",
    b'{"source": "host", "gpus": ['
    + b",".join([b'{"uuid":"a","pciAddress":"b","model":"c"}'] * 2)
    + b"]}",
    b'{"source": "host", "topology": {"numaNodes": [{"number": 0, "cores": ["0-9999"],'
    b' "memoryMiB": 1}]}}',
    b'{"source": "host", "topology": {"cards": ['
    + b",".join(b'{"pciAddress":"%d"}' % n for n in range(300))
    + b"]}}",
]


@pytest.mark.parametrize("answer", HOSTILE, ids=range(len(HOSTILE)))
def test_an_answer_that_no_host_should_give_is_refused(answer: bytes) -> None:
    """F-ANS-03: garbage is no fact."""
    with pytest.raises(AnswerError):
        read_answer(answer)


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("print('garbage')", "host_answer_invalid"),
        (f"import sys; sys.stdout.write('x' * {MAX_ANSWER + 10})", "host_answer_invalid"),
        ("import sys\nwhile True: sys.stdout.write('x' * 65536)", "host_answer_invalid"),
        ("import sys; sys.exit('sudo: a password is required')", "observation_failed"),
        ("import os; os.kill(os.getpid(), 9)", "observation_failed"),
        (
            "import sys\nwhile True: sys.stderr.write('x' * 65536); sys.exit(1)",
            "observation_failed",
        ),
    ],
)
def test_a_probe_that_fails_leaves_nothing_known(tmp_path: Path, code: str, problem: str) -> None:
    """F-ANS-03: a failed observation has a problem and no facts."""
    seen = asked(tmp_path, code)
    assert (seen.problem, seen.facts, seen.digest) == (problem, None, "")
    assert seen.message


def test_an_observation_ends_in_time_with_all_it_started(tmp_path: Path) -> None:
    """F-ANS-03, F-ANS-06: a probe that hangs is ended, and its children with it."""
    child = tmp_path / "child"
    code = (
        "import subprocess, time\n"
        "child = subprocess.Popen(['sleep', '60'])\n"
        f"print(child.pid, file=open({str(child)!r}, 'w'), end='', flush=True)\n"
        "time.sleep(60)\n"
    )
    seen = asked(tmp_path, code, observe_timeout_s=2)
    assert seen.problem == "host_timeout"
    until = time.monotonic() + 5
    while Path("/proc", child.read_text(), "exe").exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert not Path("/proc", child.read_text(), "exe").exists()


def test_a_python_that_is_not_there_is_said(tmp_path: Path) -> None:
    (seen,) = observe([host(tmp_path)], options(tmp_path, python="/no/python"), at=AT)
    assert seen.problem == "observation_failed"
    assert "/no/python" in seen.message


def test_another_machine_is_not_believed(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/machine-id").write_text("a" * 32)
    hosts = [host(tmp_path, machine_id="a" * 32), host(tmp_path, machine_id="b" * 32)]
    same, other = observe(hosts, options(tmp_path), at=AT)
    assert same.facts is not None
    assert (other.problem, other.facts) == ("host_identity_changed", None)


def test_names_of_any_number_of_commas_cost_no_answer() -> None:
    """F-REAL-04: whoever leaves files of such names behind hides no host; values are bounded."""
    names = [',{["\\' * 250] * 50
    answer = json.dumps({"leftovers": {str(uid): names for uid in range(9)}}).encode()
    assert read_json(answer)["leftovers"]["8"] == names
    for odd in (b"[" + b"1," * 50_001 + b"1]", b"[" * 50_001, b'["' + b"," * 60_000):
        with pytest.raises(AnswerError):
            read_json(odd)
