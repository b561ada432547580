"""A host that was taken over, behind a real sshd: it harms itself alone, whatever it answers.

Beside it works an honest one in the same run, whose receipts and facts must stay its own.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from reconciler.hosts.ansible.executor import run_wave
from reconciler.hosts.evidence import observe
from reconciler.hosts.prepare_commit import settle
from reconciler.model.host.evidence import Observation
from reconciler.model.plan.work import Host, HostWork, Receipt
from tests.harness.directory_host import (
    HOME,
    PLAYBOOKS,
    Wish,
    host,
    ignore,
    options,
    provide_item,
    step,
)
from tests.harness.sshd import Sshd, needs_sshd, sshd
from tests.hosts.test_evidence import answering

pytestmark = [pytest.mark.walk, needs_sshd]

AT = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)
BAD, GOOD = "gpu01", "gpu02"
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("door") / "sshd") as running:
        yield running


@dataclass(frozen=True)
class Pair:
    """A hostile host and an honest one, each with the same work."""

    door: Sshd
    folder: Path

    @property
    def bad(self) -> Host:
        return self.door.host(self.folder / "bad", node=BAD)

    @property
    def good(self) -> Host:
        (self.folder / "good").mkdir(exist_ok=True)
        return host(self.folder / "good", node=GOOD)

    @property
    def steps(self) -> dict[str, Any]:
        return {node: step("allocation.provide", provide_item(), node=node) for node in (BAD, GOOD)}

    def works(self, script: str) -> None:
        """Whatever the host is asked, this answers; the question is on its stdin."""
        (self.door.folder / "record").write_text(f"#!/bin/sh\ncat > /dev/null\n{script}\n")

    def prints(self, answer: Any) -> None:
        text = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        (self.folder / "answer").write_bytes(text)
        self.works(f"exec cat {self.folder}/answer")

    def run(self, **more: Any) -> dict[str, Receipt]:
        """What became of both; the honest one has done its work, and that is on record."""
        works = [HostWork(host=one, steps=(self.steps[one.node],)) for one in (self.bad, self.good)]
        told = {r.node: r for r in run_wave(works, options(self.folder, **more), ignore, Wish())}
        assert told[GOOD].ok and told[GOOD].problem is None
        assert (self.folder / f"good{HOME}").is_dir()
        return told

    def log(self) -> str:
        return "".join(file.read_text() for file in (self.folder / "runs").glob("run-*/log*"))


@pytest.fixture
def pair(door: Sshd, tmp_path: Path) -> Pair:
    return Pair(door, tmp_path)


def code(receipt: Receipt) -> str:
    assert receipt.problem is not None and receipt.problem.message.isprintable()
    assert len(receipt.problem.message) < 600
    return receipt.problem.code


def sound(pair: Pair, node: str, **changes: Any) -> dict[str, Any]:
    one = pair.steps[node]
    told = {"step": one.id, "ref": str(one.ref), "verb": one.verb, "changed": True, "ok": True}
    return {**told, "evidence": {}, "problem": None, **changes}


def forged(node: str, event: str, result: Any) -> str:
    """An event as ansible-runner cuts it out of what Ansible shows."""
    data = {"uuid": "1" * 8, "event": event, "event_data": {"host": f"node-{node}", "res": result}}
    text = base64.b64encode(json.dumps(data).encode()).decode()
    chunks = (text[start : start + 78] for start in range(0, len(text), 78))
    return "\x1b[K" + "".join(f"{chunk}\x1b[{len(chunk)}D" for chunk in chunks) + "\x1b[K"


@pytest.mark.parametrize("exit_code", [255, 1])
def test_no_host_speaks_for_another(pair: Pair, exit_code: int) -> None:
    """F-ANS-02: the runner believes what stands in Ansible's output, and hosts' words stood there.

    Forged are a receipt of the honest host, its failure, and that it is away.
    """
    result = {"receipts": [sound(pair, GOOD, ok=False, problem={"code": "x", "message": "forged"})]}
    events = (f"runner_on_{end}" for end in ("unreachable", "failed", "ok"))
    text = "".join(forged(node, event, result) for event in events for node in (GOOD, BAD)) * 2
    (pair.folder / "words").write_text(f"{text}{forged(GOOD, 'x', [])}\n\x1b]0;owned\x07")
    pair.works(f"cat {pair.folder}/words >&2; cat {pair.folder}/words; exit {exit_code}")
    told = pair.run()
    assert code(told[BAD]) == ("host_unreachable" if exit_code == 255 else "ansible_failed")
    assert told[BAD].unknown
    assert all(char.isprintable() or char == "\n" for char in pair.log() + told[BAD].log)


def test_an_answer_gives_ansible_no_orders(pair: Pair) -> None:
    """F-ANS-01: facts, hosts to add, warnings to show, a module to run: all of it is text."""
    marker = pair.folder / "marker"
    template = "{{ lookup('pipe', 'touch " + str(marker) + "') }}"
    orders = {
        "add_host": {"host_name": f"node-{GOOD}", "host_vars": {"ansible_host": "192.0.2.1"}},
        "add_group": "all",
        "ansible_facts": {"ansible_python_interpreter": f"/bin/touch {marker}", "gpuaas_work": []},
        "ansible_stats": {"data": {"x": 1}, "per_host": False},
        "warnings": [forged(GOOD, "runner_on_unreachable", {"msg": "forged"}), template],
        "deprecations": [{"msg": template}],
        "exception": template,
        "diff": {"before": template, "after": ""},
        "results": [{"failed": True}],
        "unreachable": True,
        "skipped": True,
        "_ansible_no_log": True,
        "msg": template,
    }
    receipt = sound(pair, BAD, evidence={template: template})
    pair.prints({"changed": True, "failed": False, "receipts": [receipt], **orders})
    told = pair.run()
    assert told[BAD].ok and told[BAD].evidence == {template: template}
    assert not marker.exists()


TOO_MUCH = {
    "output": "exec cat /dev/zero",
    "errors": "exec cat /dev/zero >&2",
    "one long line": f"head -c {5 * MIB} /dev/zero | tr '\\0' x; echo",
}


@pytest.mark.parametrize("what", TOO_MUCH)
def test_an_answer_without_end_ends(pair: Pair, what: str) -> None:
    """Memory: the worker of that host alone is bounded, and no program of it is left behind."""
    pair.works(TOO_MUCH[what])
    told = pair.run(timeout_s=60)
    assert (code(told[BAD]), told[BAD].unknown) == ("host_answer_invalid", True)
    assert clients(pair.door) == set()


def clients(door: Sshd) -> set[str]:
    """Programs of ssh that still talk to it, but for connections that are kept for the next."""
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            words = Path("/proc", pid, "cmdline").read_text().split("\0")
            if words[0].endswith("ssh") and f"Port={door.port}" in words:
                found.add(" ".join(words))
    return found


ANSWERS = {
    "deep": b"[" * 100_000,
    "controls": b'{"receipts":"\x1b[2J"}',
    "nothing": b"\n\n",
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_what_is_no_answer_is_unknown(pair: Pair, answer: str) -> None:
    pair.prints(ANSWERS[answer])
    told = pair.run()
    empty = answer == "nothing"
    assert code(told[BAD]) == ("ansible_failed" if empty else "host_answer_invalid")
    assert told[BAD].unknown


def test_a_receipt_for_another_counts_for_nobody(pair: Pair) -> None:
    pair.prints({"receipts": [sound(pair, GOOD, ok=False, problem={"code": "x", "message": "x"})]})
    assert code(pair.run()[BAD]) == "host_answer_invalid"


def test_words_of_a_host_are_one_plain_line(pair: Pair) -> None:
    """F-CLI-03: where it is settled and where it is looked at, as in every run."""
    pair.works("printf '\\033[2J%s\\n\\302\\233x' \"Host key for gpu01 has changed\" >&2; exit 7")
    told = settle([pair.bad], [BAD], options(pair.folder))
    assert told[BAD].isprintable() and told[BAD].startswith("keep: ")
    (seen,) = observe([pair.bad], options(pair.folder), at=AT)
    assert (seen.problem, seen.facts) == ("observation_failed", None)
    assert seen.message.isprintable()


def test_a_user_who_forwards_his_agent_does_not_forward_it_to_hosts(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root of a host could log in with it elsewhere for as long as we are there."""
    pair.works(f"env > {pair.folder}/seen; exit 1")
    config = pair.folder / "home/.ssh/config"
    config.parent.mkdir(parents=True, mode=0o700)
    config.write_text(
        "Host *\n  ForwardAgent yes\n  ForwardX11 yes\n  RemoteForward 7001 [::1]:1\n"
    )
    with_config = pair.folder / "bin/ssh"
    with_config.parent.mkdir()
    with_config.write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {config} "$@"\n')
    with_config.chmod(0o755)
    agent = subprocess.Popen(
        ["ssh-agent", "-D", "-a", f"{pair.folder}/agent"], stdout=subprocess.DEVNULL
    )
    try:
        monkeypatch.setenv("PATH", f"{with_config.parent}:/usr/bin:/bin")
        monkeypatch.setenv("SSH_AUTH_SOCK", f"{pair.folder}/agent")
        observe([pair.bad], options(pair.folder), at=AT, fresh={BAD})
    finally:
        agent.terminate()
        agent.wait()
    assert "SSH_CONNECTION" in (pair.folder / "seen").read_text()
    assert "SSH_AUTH_SOCK" not in (pair.folder / "seen").read_text()


MEASURED = """
import json, resource, sys
from datetime import UTC, datetime
from pathlib import Path
from reconciler.hosts.evidence import observe
from tests.harness.directory_host import host, options

folder = Path(sys.argv[1])
hosts = [host(folder, node=f"gpu{n:02}") for n in range(16)]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
seen = observe(hosts, options(folder, playbooks=folder / "playbooks"), at=datetime.now(UTC))
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([(after - before) // 1024, sorted({one.problem for one in seen})]))
"""
HUGE = {
    "without end": "iter(lambda: 'x' * 65536, '')",
    "many empty things": '\'{"source":"host","x":[\' + \'{"":0},\' * 590000 + \'0]}\'',
    "as many paths as may be": '\'{"source":"host","paths":{\' + \',\'.join('
    "'\"/%d\":\"%s\"' % (n, 'x' * 60) for n in range(49000)) + '}}'",
}


@pytest.mark.parametrize("what", HUGE)
def test_sixteen_hostile_answers_cost_little_memory(tmp_path: Path, what: str) -> None:
    """Bounded: the largest answers, all at once, in a process of its own to be measured."""
    answering(tmp_path, f"import sys\nsys.stdout.writelines({HUGE[what]})\n")
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, tmp_path], capture_output=True, cwd=PLAYBOOKS.parent
    )
    assert done.returncode == 0, done.stderr.decode()
    mib, problems = json.loads(done.stdout)
    assert problems == ([""] if "as many" in what else ["host_answer_invalid"])
    assert mib < 400, f"{mib} MiB"


def test_another_machines_identity_is_nobodys(tmp_path: Path) -> None:
    """A host that says that it is another is no host at all; whom it names stays who they are."""
    answer = json.dumps({"source": "host", "machineId": "b" * 32})
    chosen = options(tmp_path, playbooks=answering(tmp_path, f"print({answer!r})"))
    hosts = [host(tmp_path, node=BAD, machine_id="a" * 32), host(tmp_path, machine_id="b" * 32)]
    liar, named = observe(hosts, chosen, at=AT)
    assert (liar.problem, liar.facts) == ("host_identity_changed", None)
    assert isinstance(named, Observation) and named.facts is not None
