"""Whoever keeps a volume from being detached is ended if they are its tenant; nobody else is."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from gpuaas import detach, eviction, systemd_mounts
from gpuaas.mounts import mounted_at
from gpuaas.paths import Tree

from tests import privileges
from tests.host_code.test_stale_mounts import SEAT, UID, point, process, users
from tests.host_code.volume_host import VOLUME, opened, refused

__all__ = ["point"]

pytestmark = [
    pytest.mark.walk,
    privileges.needs(privileges.mounts, privileges.others),
]

TENANT = ("setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups")
NEIGHBOUR = ("setpriv", f"--reuid={UID - 1}", f"--regid={UID - 1}", "--clear-groups")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(0o755)
    monkeypatch.setattr(systemd_mounts, "GRACE_SECONDS", 0.2)
    monkeypatch.setattr(detach, "GRACE_SECONDS", 0.2)
    monkeypatch.setattr(eviction, "GRACE_SECONDS", 0.5)
    monkeypatch.setattr(eviction, "KILL_SECONDS", 1.0)


def let_go(tree: Tree, point: Path) -> None:
    """As a detach does it, of one place."""

    def once() -> None:
        systemd_mounts.unmount(tree, str(point), users)
        detach.refuse_hidden(tree, SEAT, UID, VOLUME)

    eviction.letting_go(tree, SEAT, UID, VOLUME, once)


def ended(one: subprocess.Popen[bytes]) -> bool:
    try:
        one.wait(0.5)
    except subprocess.TimeoutExpired:
        return False
    return True


@contextmanager
def stubborn(point: Path) -> Iterator[subprocess.Popen[bytes]]:
    """One of the tenant's that hears no request to end."""
    script = "trap '' TERM; echo; while :; do sleep 1; done"
    words = ("env", "-C", point, *TENANT, "sh", "-c", script)
    with subprocess.Popen(words, stdout=-1) as started:
        assert started.stdout is not None and started.stdout.readline()
        try:
            yield started
        finally:
            started.kill()


def test_who_works_in_there_is_ended_and_nobody_else(point: Path, tmp_path: Path) -> None:
    """STO-10: of the tenant's own processes those in the volume; one elsewhere goes on."""
    with (
        opened(tmp_path) as tree,
        process("env", "-C", point, *TENANT) as inside,
        stubborn(point) as deaf,
        process("env", "-C", "/", *TENANT) as elsewhere,
        process("env", "-C", "/", *NEIGHBOUR) as neighbour,
    ):
        let_go(tree, point)
        assert tree.changed and mounted_at(str(point)) is None
        assert ended(inside) and inside.returncode == -15 and ended(deaf)
        told = tree.said["ended"].split(", ")
        assert {f"{inside.pid} sleep", f"{deaf.pid} sh"} <= set(told)
        assert len(told) == len(set(told))
        assert not ended(elsewhere) and not ended(neighbour)


@pytest.mark.parametrize("who", [(), NEIGHBOUR], ids=["root", "neighbour"])
def test_what_others_have_open_stays(point: Path, tmp_path: Path, who: tuple[str, ...]) -> None:
    """STO-10: they are named, and it is not taken from under them."""
    with (
        opened(tmp_path) as tree,
        process("env", "-C", point, *who) as other,
        process("env", "-C", point, *TENANT) as inside,
    ):
        code, said = refused(let_go, tree, point)
        assert code == "storage_busy" and f"in use by {other.pid} sleep" in said
        assert said.endswith(f"; ended: {inside.pid} sleep")
        assert ended(inside) and not ended(other)
        assert (point / "log").read_text() == "one"


def test_one_that_has_it_by_itself_is_ended(point: Path, tmp_path: Path) -> None:
    """STO-10 F-STO-06: in a namespace in which the host's unmount does nothing."""
    private = ("unshare", "--mount", "--propagation=private")
    with opened(tmp_path) as tree, process(*private, *TENANT) as inside:
        let_go(tree, point)
        assert mounted_at(str(point)) is None and ended(inside)


def test_what_is_started_anew_is_not_fought_for_ever(
    point: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STO-10: after some rounds it is named, and it stays mounted."""
    rounds = []
    monkeypatch.setattr(eviction, "end_in", lambda *_: rounds.append(time.monotonic()))
    with opened(tmp_path) as tree, process("env", "-C", point, *TENANT) as inside:
        code, said = refused(let_go, tree, point)
        assert code == "storage_busy" and f"{inside.pid} sleep" in said
        assert len(rounds) == eviction.ROUNDS


def test_a_dry_run_ends_nobody(point: Path, tmp_path: Path) -> None:
    with opened(tmp_path, dry=True) as tree, process("env", "-C", point, *TENANT) as inside:
        eviction.end_in(tree, SEAT, UID, VOLUME)
        assert tree.changed and not ended(inside)


def test_another_refusal_is_told_at_once(point: Path, tmp_path: Path) -> None:
    """STO-10: only what is busy is worth another round."""
    with opened(tmp_path) as tree:
        fails = partial(eviction.letting_go, tree, SEAT, UID, VOLUME)
        code, _ = refused(fails, lambda: (_ for _ in ()).throw(detach.Refusal("verb_failed", "x")))
        assert code == "verb_failed"
