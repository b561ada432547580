"""nvidia-smi asked in few calls within a budget, and its long answer read line by line."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from gpuaas import observe, smi
from gpuaas.smi_log import read_log

from reconciler import shipped
from reconciler.operations.node.directory_host import lay
from tests.host_code.test_driver import UUIDS, the_node


@pytest.fixture
def root(tmp_path: Path) -> Path:
    lay(tmp_path, the_node(), shipped.templates())
    return tmp_path


def before(root: Path, script: str) -> None:
    """A line of shell before the stand-in answers."""
    program = root / "usr/bin/nvidia-smi"
    text = program.read_text()
    program.write_text(text.replace("set -eu\n", f"set -eu\n{script}\n", 1))


def look(root: Path, **request: Any) -> tuple[dict[str, Any], str]:
    facts = observe.observe({"root": str(root), **request})
    observe.BUDGET.begin(None)
    return facts, "; ".join(f"{p['probe']}: {p['message']}" for p in facts["problems"])


def test_a_look_takes_three_calls(root: Path) -> None:
    """F-REAL-06: whatever is asked of cards, so that slow drivers are heard as well."""
    before(root, f"echo x >> {root}/calls")
    look(root)
    assert len((root / "calls").read_text().split()) == 3


def test_a_slow_driver_is_heard_and_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F-REAL-06: what it was that was slow stands with the facts."""
    monkeypatch.setattr(smi, "SLOW_SECONDS", 0.2)
    before(root, "sleep 0.1")
    facts, said = look(root)
    assert len(facts["gpus"]) == 3 and facts["cardErrors"] == {}
    assert "of nvidia-smi took 0 s: a driver that stays loaded answers at once" in said
    assert said.count("nvidia-persistenced") == 1


def test_what_is_too_slow_costs_its_own_fact(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F-REAL-06: processes that are not told are unknown; the cards are known."""
    monkeypatch.setattr(smi, "CALL_SECONDS", 2.0)
    before(root, 'case "$*" in *compute*) exec sleep 9 ;; esac')
    facts, said = look(root)
    assert [card["uuid"] for card in facts["gpus"]] == list(UUIDS)
    assert not any("processes" in card for card in facts["gpus"])
    assert facts["cardErrors"] == {}
    assert "processes: nvidia-smi did not answer within 2 s" in said


def test_all_calls_together_have_a_budget(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F-REAL-06: the parts fit the whole, and the rest of the host is told."""
    monkeypatch.setattr(smi, "ALL_SECONDS", 2.5)
    before(root, 'case "$*" in *-x*) exec sleep 9 ;; esac')
    facts, said = look(root)
    assert len(facts["gpus"]) == 3
    assert "gpus: nvidia-smi did not answer within" in said
    assert "processes: nvidia-smi was not asked for more: 2 calls of nvidia-smi took" in said
    assert facts["descriptors"] == {} and facts["os"] == "debian-12"


def test_a_look_ends_in_its_time(root: Path) -> None:
    """F-REAL-06: what there is no time for is unknown, and said so."""
    facts, said = look(root, seconds=0.0)
    assert "gpus" not in facts
    assert "nvidia-smi was not asked: the time of this look was up" in said
    assert facts["os"] == "debian-12"
    assert "gpus" in look(root)[0], "the next look has its own"


def test_a_field_that_a_driver_does_not_know_is_left_out(root: Path) -> None:
    """F-REAL-06: the question is asked again without it."""
    before(
        root,
        'case "$*" in *accounting.mode*)'
        " echo 'Field \"accounting.mode\" is not a valid field to query.'; exit 2 ;; esac",
    )
    facts, said = look(root)
    assert len(facts["gpus"]) == 3 and facts["cardErrors"] == {} and "accounting" not in said


LOG = """\
<?xml version="1.0" ?>
<nvidia_smi_log>
\t<driver_version>580.1</driver_version>
\t<gpu id="00000000:0A:00.0">
\t\t<mig_mode>
\t\t\t<current_mig>Disabled</current_mig>
\t\t</mig_mode>
\t\t<uuid>GPU-a</uuid>
\t\t<processes>
\t\t\t<process_info>
\t\t\t\t<pid>7</pid>
\t\t\t\t<process_name>{name}</process_name>
\t\t\t</process_info>
\t\t</processes>
\t\t<after>words</after>
\t</gpu>
\t<gpu id="00000000:18:00.0">
\t\t<uuid>GPU-b</uuid>
\t\t<processes>
\t\t</processes>
\t</gpu>
</nvidia_smi_log>
"""


@pytest.mark.parametrize(
    "name", ["python", "a<b", "a&b", "\x1b[2J", "</gpu>", "<uuid>GPU-x</uuid>"]
)
def test_the_long_answer_need_not_be_xml(name: str) -> None:
    """F-REAL-06: no name of a process costs anything, and nothing after it is believed."""
    log = read_log(LOG.replace("{name}", name).split("\n"))
    first, second = log.cards.values()
    assert (first.told, first.pids) == ({"mig_mode/current_mig": "Disabled", "uuid": "GPU-a"}, [7])
    assert (second.told, second.pids, second.whole) == ({"uuid": "GPU-b"}, [], True)
    assert log.host["driver_version"] == "580.1"


@pytest.mark.parametrize("bus", ["00000000:18:00.0", "0000:18:00.0", "00000:18:00.0"])
def test_a_card_that_is_told_of_twice_is_not_believed(bus: str) -> None:
    """F-REAL-06: a name may tell of another card, and then nobody knows which is true.

    However the address is written.
    """
    forged = f'x\n</gpu>\n<gpu id="{bus}">\n<uuid>GPU-b</uuid>\n<fabric>\n'
    log = read_log(LOG.replace("{name}", forged).split("\n"))
    assert list(log.cards) == ["0000:0a:00.0"]
    assert log.twice == {"0000:18:00.0"}


def test_an_answer_that_is_cut_short_keeps_what_came_before() -> None:
    """F-REAL-06: a card whose end was not told is not whole."""
    cut = LOG.replace("{name}", "python").split("\t\t<uuid>GPU-b")[0]
    cards = list(read_log(cut.split("\n")).cards.values())
    assert [card.whole for card in cards] == [True, False]


@pytest.mark.parametrize(
    "name",
    [
        "/home/a/GPU 0000:18:00.0",
        "x\nUnable to determine the device handle for GPU1: 0000:18:00.0: Unknown Error",
        "WARNING: infoROM is corrupted at gpu 0000:18:00.0",
        'Field "uuid" is not a valid field to query',
        "x\nNo devices were found",
    ],
)
@pytest.mark.parametrize("code", [0, 255])
def test_names_of_processes_are_no_words_of_the_driver(name: str, code: int) -> None:
    """F-REAL-06: whoever names a program so takes no card from a neighbour, nor the whole look."""
    text = LOG.replace("{name}", name)
    answer = smi.heard("nvidia-smi", subprocess.CompletedProcess([], code, text, ""))
    assert answer.remarks == [] and len(read_log(answer.lines).cards) == 2


def test_words_of_the_driver_before_any_name_are_heard() -> None:
    """F-REAL-06: on either stream."""
    said = "WARNING: infoROM is corrupted at gpu 0000:0A:00.0"
    for streams in ((f"{said}\n{LOG}", ""), (LOG, f"{said}\n")):
        done = subprocess.CompletedProcess([], 0, *streams)
        assert [one.address for one in smi.heard("nvidia-smi", done).remarks] == ["0000:0a:00.0"]
