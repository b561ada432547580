"""Bootstrapping: what is printed is one paste of plain shell, with the right key in it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from reconciler.model.problem import ProblemError
from reconciler.operations.node.bootstrap import bootstrap
from tests.fleets import public_key
from tests.harness.yard import Yard

KEY = public_key("control")


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    (tmp_path / "gpuaas.yaml").write_text("operators: [olga]\nssh: {identityFile: keys/control}\n")
    (tmp_path / "specs").mkdir()
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys/control.pub").write_text(f"{KEY}\n")
    return Yard(tmp_path)


def refusal(yard: Yard, key: Path | None = None) -> str:
    with pytest.raises(ProblemError) as refused:
        bootstrap(yard.fleet(), key=key)
    return refused.value.problems[0].code


def assignments(script: str) -> dict[str, str]:
    """What a shell makes of the first lines, whatever stands in them."""
    head = script.partition("main() {")[0].split("\n", 2)[2]
    show = head + '\nprintf "%s\\0" "$login" "$key" "$user"'
    told = subprocess.check_output(["sh", "-euc", show], text=True).split("\0")
    return dict(zip(("login", "key", "user"), told, strict=False))


def test_the_key_is_the_public_half_of_the_fleets_own(yard: Yard) -> None:
    script = bootstrap(yard.fleet())
    assert assignments(script) == {"login": "gpuaas", "key": KEY, "user": ""}


def test_the_key_may_lie_in_the_home_of_who_runs_it(
    yard: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the README names it; a `~` elsewhere is a name like any other, and no path."""
    monkeypatch.setenv("HOME", str(tmp_path))
    settings = tmp_path / "gpuaas.yaml"
    settings.write_text("operators: [olga]\nssh: {identityFile: ~/keys/control}\n")
    assert assignments(bootstrap(yard.fleet()))["key"] == KEY
    settings.write_text("operators: [olga]\nssh: {identityFile: ~olga/keys/control}\n")
    assert refusal(yard) == "value_pattern"


def test_another_login_and_key_may_be_named(yard: Yard, tmp_path: Path) -> None:
    """The key by its public or its private half, of which only the public one is ever read."""
    other = public_key("other") + ' it\'s "$(mine)" `here`'
    (tmp_path / "other.pub").write_text(other + "\n")
    for name in ("other", "other.pub"):
        told = assignments(bootstrap(yard.fleet(), "ops", tmp_path / name))
        assert told == {"login": "ops", "key": other, "user": " --user ops"}


def test_without_a_key_nothing_is_printed(yard: Yard, tmp_path: Path) -> None:
    """Nor with one that is none: a private half put in place of the public one, for example."""
    assert refusal(yard, tmp_path / "none") == "key_invalid"
    (tmp_path / "two.pub").write_text(f"{KEY}\n{KEY}\n")
    assert refusal(yard, tmp_path / "two") == "key_invalid"
    (tmp_path / "private.pub").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\n")
    assert refusal(yard, tmp_path / "private.pub") == "private_key_in_spec"
    (tmp_path / "gpuaas.yaml").write_text("operators: [olga]\n")
    assert refusal(yard) == "settings_invalid"


@pytest.mark.parametrize("login", ["Root", "-x", "a b", "x\nGPUAAS", "$(id)"])
def test_a_login_is_one_of_linux(yard: Yard, login: str) -> None:
    with pytest.raises(ProblemError) as refused:
        bootstrap(yard.fleet(), login)
    assert refused.value.problems[0].code == "usage"


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_it_is_shell_that_runs_whole_or_not_at_all(yard: Yard, shell: str) -> None:
    """A paste that was cut off before its end does nothing: all of it is one function."""
    script = bootstrap(yard.fleet())
    assert script.startswith("sh -eu <<'GPUAAS'\n")
    assert script.endswith("main </dev/null\nGPUAAS\n")
    assert script.splitlines().count("GPUAAS") == 1
    subprocess.run([shell, "-n"], input=script, text=True, check=True)


def test_who_is_not_root_is_told_so(yard: Yard) -> None:
    script = bootstrap(yard.fleet()).replace('"$(id -u)"', "1000")
    done = subprocess.run(["sh"], input=script, text=True, capture_output=True, check=False)
    assert (done.returncode, "root shell" in done.stderr, done.stdout) == (1, True, "")
