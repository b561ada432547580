"""Programs of a host that are asked: what they say is bounded, and so is how long they take."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from gpuaas import probes
from gpuaas.probes import ProbeError, Probes, call


def test_what_is_said_is_told_and_how_it_ended() -> None:
    done = call("sh", "-c", "printf 'a\\r\\nb\\n'; echo no >&2; exit 3")
    assert (done.stdout, done.stderr, done.returncode) == ("a\nb\n", "no\n", 3)
    assert call("sh", "-c", "printf '\\377'").stdout == "\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize("size", [0, 5, 1 << 20])
def test_what_it_is_given_it_reads_to_the_end(size: int) -> None:
    """More than a pipe holds, and nothing at all."""
    assert call("cat", given="x" * size).stdout == "x" * size


@pytest.mark.parametrize("where", ["cat /dev/zero", "cat /dev/zero >&2"])
def test_nobody_says_more_than_there_is_room_for(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probes, "MAX_SAID", 3 << 20)
    with pytest.raises(ProbeError, match="sh says more than 3 MiB"):
        call("sh", "-c", f"exec {where}")


@pytest.mark.parametrize(
    "script",
    ["exec sleep 60", "sleep 60 &", "exec >&- 2>&-; exec sleep 60", "trap '' TERM; exec sleep 60"],
)
def test_nobody_is_waited_for_longer_than_that(script: str) -> None:
    """Not for who has closed its ears either, nor for what it has left behind."""
    began = time.monotonic()
    with pytest.raises(ProbeError, match=r"did not answer within 0\.3 s"):
        call("sh", "-c", script, seconds=0.3)
    assert time.monotonic() - began < 5


def test_a_file_that_is_larger_than_it_may_be_is_not_cut(tmp_path: Path) -> None:
    """Half a list would be a list without the other half."""
    (tmp_path / "list").write_text("x" * probes.MAX_TEXT)
    assert len(Probes(str(tmp_path)).text("list")) == probes.MAX_TEXT
    (tmp_path / "list").write_text("x" * (probes.MAX_TEXT + 1))
    with pytest.raises(ProbeError, match="/list: more than can be read"):
        Probes(str(tmp_path)).text("list")
