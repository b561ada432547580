"""node.prepare without a host: its lists are the planner's, its texts what their readers want."""

from __future__ import annotations

import hashlib
import os
import re
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from gpuaas import candidates, driver, network, platform, platform_state, prepare, settle, sshd
from gpuaas.converge import converge
from gpuaas.pam import block_of, unclear, with_block, without_users_own
from gpuaas.paths import Refusal, Tree
from gpuaas.probes import Probes

from reconciler import shipped
from reconciler.kinds.node import host

ITEM: dict[str, Any] = {
    "login": "gpuaas",
    "undoAfter": 120,
    "directories": [],
    "files": [],
    "blocks": [],
    "openSlice": "",
    "units": [],
}
STACK = "session required pam_unix.so\n"


def test_hosts_and_planner_speak_of_the_same_places() -> None:
    """SEC-04: a node has no other places than these, whoever asks."""
    assert set(prepare.FILES) == set(host.FILES)
    assert set(prepare.FOLDERS) == set(host.FOLDERS)
    assert set(prepare.BLOCKS) == set(host.BLOCKS)
    assert set(prepare.UNITS) == set(host.UNITS)
    told = [word.partition("=")[0] for word in host.SSHD.split()]
    assert told == sorted([*sshd.SETTINGS, "admitted"])
    switches = {f"sysctl {name}" for name in platform.SYSCTLS}
    assert switches < {*host.HARDENING, host.NAMESPACES}


def test_whatever_is_written_lies_where_hosts_are_looked_at() -> None:
    """What is outside of these places would be believed gone."""
    slices = ["/etc/systemd/system/user-0.slice.d/60-gpuaas-open.conf"]
    links = [f"{prepare.WANTS}/{unit}" for unit in prepare.UNITS]
    for path in [*prepare.FILES, *prepare.FOLDERS, *slices, *links]:
        assert path == "/home" or any(tells(path, *place) for place in platform_state.PLACES), path


def tells(path: str, place: str, depth: int, ours: re.Pattern[str] | None) -> bool:
    if not path.startswith(f"/{place}/"):
        return False
    first, *rest = path.removeprefix(f"/{place}/").split("/")
    return len(rest) <= depth and (ours is None or ours.fullmatch(first) is not None)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"undoAfter": 0},
        {"undoAfter": 86400},
        {"undoAfter": True},
        {"blocks": [{"path": "/etc/pam.d/sshd", "content": "", "place": "middle"}]},
        {"files": [{"path": "/etc/passwd", "mode": "0644", "content": "\0"}]},
        {"command": "id"},
    ],
)
def test_a_folder_is_no_host_and_odd_work_is_refused(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    entry = {"step": "s", "verb": "node.prepare", "ref": "node/a", "item": {**ITEM, **changes}}
    (receipt,) = converge(str(tmp_path), "", [entry])
    assert receipt["problem"]["code"] == "item_invalid"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", ["start", "end"])
@pytest.mark.parametrize("before", ["", STACK, STACK.rstrip("\n")])
def test_a_block_is_put_once_and_nothing_else_is_touched(before: str, place: str) -> None:
    once = with_block(before, "session optional pam_x.so\n", place)
    assert with_block(once, "session optional pam_x.so\n", place) == once
    other = with_block(once, "session optional pam_y.so\n", place)
    assert block_of(other) == "session optional pam_y.so\n"
    assert "pam_x" not in other
    rest = STACK if before else ""
    assert other.replace(with_block("", "session optional pam_y.so\n", place), "") == rest
    assert other.startswith(STACK) is (place == "end" and bool(before))


def test_two_blocks_are_none() -> None:
    """Whoever copies our lines has a stack that nobody has judged."""
    one = with_block("", "session optional pam_x.so\n", "end")
    assert block_of(one + one) == ""
    assert block_of(STACK) == ""


ONE = with_block("", "session optional pam_x.so\n", "end")
OTHERS = "session required pam_site.so\n"
UNCLEAR = {
    "copied": ONE + OTHERS + ONE,
    "end lost": ONE.replace("# END gpuaas\n", "") + OTHERS,
    "end lost before a whole one": ONE.replace("# END gpuaas\n", "") + OTHERS + ONE,
    "beginning lost": OTHERS + "# END gpuaas\n",
    "turned round": "# END gpuaas\n" + OTHERS + ONE.partition("\n")[0] + "\n",
    "doubled mark": ONE.replace("# END gpuaas\n", "# END gpuaas\n# END gpuaas\n"),
    "other line ends": ONE.replace("\n", "\r\n"),
    "indented": ONE.replace("# END", "  # END"),
    "no last line end": OTHERS + ONE.rstrip("\n"),
    "other words": ONE.replace(": what is changed here is put back", ""),
}


@pytest.mark.parametrize("text", UNCLEAR.values(), ids=UNCLEAR)
@pytest.mark.parametrize("place", ["start", "end"])
def test_where_it_is_unclear_what_is_ours_nothing_is_touched(text: str, place: str) -> None:
    """F-REAL-18: what stands between two borders may be somebody else's."""
    assert block_of(text) == ""
    assert unclear(text)
    with pytest.raises(ValueError, match="ours"):
        with_block(text, "session optional pam_y.so\n", place)


def test_what_is_around_a_whole_block_stays_as_it_is() -> None:
    """F-REAL-18"""
    around = OTHERS + "# a remark that ends gpuaas\n"
    assert unclear(around + ONE + OTHERS) == ""
    changed = with_block(around + ONE + OTHERS, "session optional pam_y.so\n", "end")
    assert changed.startswith(around + OTHERS)


@pytest.mark.parametrize(
    ("line", "reads"),
    [
        ("Include /etc/ssh/sshd_config.d/*.conf\n", "Include /t/sshd_config.d/*.conf\n"),
        ("include sshd_config.d/*.conf\n", "include /t/sshd_config.d/*.conf\n"),
        (
            'Include "/etc/ssh/sshd_config.d/a b.conf"\n',
            'Include "/t/sshd_config.d/a b.conf"\n',
        ),
        (
            "  Include /etc/ssh/other.conf /etc/ssh/sshd_config.d/*.conf\n",
            "  Include /etc/ssh/other.conf /t/sshd_config.d/*.conf\n",
        ),
        ("Include /srv/etc/ssh/sshd_config.d/*.conf\n",) * 2,
    ],
)
def test_a_copy_of_sshds_configuration_reads_the_copies(line: str, reads: str) -> None:
    assert candidates.redirect(line, "/t/sshd_config.d") == reads


def test_jumps_in_our_stacks_end_where_they_end() -> None:
    """Whoever is no tenant skips all of our lines, and not one of anybody else's."""
    for name in ("node/pam-sshd", "node/pam-systemd-user"):
        first, *rest = shipped.templates()[name].splitlines()
        assert f"[success={len(rest)} default=ignore]" in first
        assert "user notingroup gpuaas-tenants" in first


def test_doors_are_shut_by_our_lines_or_by_not_being_there(tmp_path: Path) -> None:
    probes = Probes(str(tmp_path))
    assert platform.read_doors(probes) == {"at": "shut", "cron": "shut"}
    daemon, stack = tmp_path / "usr/sbin/cron", tmp_path / "etc/pam.d/cron"
    for path in (daemon, stack):
        path.parent.mkdir(parents=True)
        path.write_text(STACK)
    assert platform.read_doors(probes)["cron"] == "open"
    stack.write_text(with_block(STACK, shipped.templates()["node/pam-jobs"], "start"))
    assert platform.read_doors(probes)["cron"] == "shut"


def test_a_timer_that_fires_in_between_leaves_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule 6: putting back waits until all is written, or what came after it would stay."""
    for name, place in (("FOLDER", "kept"), ("MANIFEST", "kept/manifest.json"), ("LOCK", "lock")):
        monkeypatch.setattr(settle, name, str(tmp_path / place))
    monkeypatch.setattr(prepare, "arm", lambda seconds: None)
    monkeypatch.setattr(network, "is_stale", lambda root: False)
    timer = threading.Thread(target=settle.restore)

    @dataclass(frozen=True)
    class Slow(prepare.Wanted):
        def make(self, tree: Tree) -> None:
            timer.start()
            timer.join(timeout=0.5)
            super().make(tree)

    root = os.open("/", os.O_RDONLY)
    paths = [str(tmp_path / name) for name in ("first", "second")]
    wanted = [Slow(path=paths[0], content=""), prepare.Wanted(path=paths[1], content="")]
    try:
        with pytest.raises(Refusal, match="before"):
            prepare._prepare(Tree(root, dry=False), wanted, 60)
    finally:
        os.close(root)
        timer.join()
    assert [path for path in paths if os.path.exists(path)] == []


READING = "session required pam_env.so user_readenv=1 envfile=/etc/default/locale\n"


def test_no_file_of_a_tenants_own_speaks_to_what_pam_starts_as_root(tmp_path: Path) -> None:
    """SEC-04: LD_PRELOAD in ~/.pam_environment was root; every stack that is included counts."""
    probes = Probes(str(tmp_path))
    stack, vendors = tmp_path / "etc/pam.d/sshd", tmp_path / "usr/lib/pam.d/common-session"
    for path in (stack, vendors):
        path.parent.mkdir(parents=True)
    vendors.write_text("session optional pam_env.so debug user_readenv=01\n@include sshd\n")
    stack.write_text(f"# user_readenv=1 is no more\n{STACK}")
    assert platform.read_environments(probes) == {"sshd": "closed", "systemd-user": "closed"}
    stack.write_text(READING)
    assert platform.read_environments(probes)["sshd"] == "open: /etc/pam.d/sshd"
    closed = without_users_own(STACK + READING)
    assert closed == STACK + READING.replace("readenv=1", "readenv=0")
    assert without_users_own(closed) == closed
    for line in ("@include common-session\n", "session\tsubstack common-session\n"):
        stack.write_text(closed + line)
        shown = platform.read_environments(probes)["sshd"]
        assert shown == "open: /usr/lib/pam.d/common-session"


def test_programs_with_more_rights_than_their_callers(tmp_path: Path) -> None:
    probes = Probes(str(tmp_path))
    assert platform.read_setuid(probes) == {"extra": "none"}
    programs = tmp_path / "usr/bin"
    programs.mkdir(parents=True)
    for name, mode in (("sudo", 0o4755), ("plain", 0o755), ("odd\n", 0o4755), ("group", 0o2755)):
        (programs / name).touch()
        (programs / name).chmod(mode)
    (programs / "folder").mkdir(mode=0o755)
    (programs / "folder").chmod(0o2775)
    assert platform.read_setuid(probes) == {"extra": "/usr/bin/group, /usr/bin/odd\\n"}


# The network.

SET = (
    '{"nftables": [{"metainfo": {}}, {"set": {"name": "own", "elem": [{"elem": {"val": {"concat":'
    ' ["127.77.78.32", {"range": [1310720000, 1310785535]}]}, "comment": "train-a-abcd"}},'
    ' {"elem": {"val": {"concat": ["127.77.78.32", 20000]}, "comment": "train-a-abcd"}},'
    ' {"concat": ["127.77.78.32", 20001]}]}}]}'
)


def test_rules_count_as_long_as_the_kernel_has_what_was_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEC-04: a file that has changed since has to be loaded; what the kernel lost shows."""
    told: list[str | None] = ["listed"]
    monkeypatch.setattr(network, "_listed", lambda: told[0])
    own, rules = tmp_path / network.OWN, tmp_path / network.RULES
    own.mkdir(parents=True)
    rules.write_text("rules")
    for name in ("20001.nft", "20000.nft", ".20002.nft.gpuaas-new", "README"):
        (own / name).write_text(name)
    loaded = tmp_path / network.LOADED
    loaded.parent.mkdir(parents=True)
    files = hashlib.sha256(b"20000.nft20001.nftrules").hexdigest()
    probes = Probes(str(tmp_path))
    assert network.is_stale(str(tmp_path))
    assert network.read_walls(probes)["walls"] == "changed since loaded"
    loaded.write_text(f"rules {files} listed\n")
    assert not network.is_stale(str(tmp_path))
    assert network.read_walls(probes)["walls"] == "in force sha256:rules"
    (own / "20001.nft").unlink()
    assert network.is_stale(str(tmp_path))
    assert network.read_walls(probes)["walls"] == "in force sha256:rules"
    told[0] = None
    assert network.is_stale(str(tmp_path))
    assert network.read_walls(probes) == {"walls": "none"}
    assert network.read_loopback(probes) == {}


def test_whose_an_address_is_and_who_else_reaches_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "_listed", lambda: "listed")
    monkeypatch.setattr(network, "lines_of", lambda *words: SET.splitlines())
    assert network.read_loopback(Probes("/")) == {
        "train-a-abcd": "127.77.78.32 of uid 20000, 127.77.78.32 of uid 1310720000-1310785535",
        "?": "127.77.78.32 of uid 20001",
    }


# The driver.


@pytest.mark.parametrize(
    ("unit", "told", "shown"),
    [
        ("enabled", ["Enabled", "Enabled"], "on"),
        ("disabled", ["Enabled"], "nvidia-persistenced.service is disabled"),
        ("enabled", ["Enabled", "Disabled"], "off on 1 of 2 cards"),
        ("enabled", [], "the driver does not say"),
        (
            "not-found",
            ["Disabled"],
            "nvidia-persistenced.service is not-found; off on 1 of 1 cards",
        ),
    ],
)
def test_a_driver_that_ends_with_its_last_user_is_said(
    unit: str, told: list[str], shown: str
) -> None:
    assert driver.persistence(unit, told) == shown


@pytest.mark.parametrize(
    ("modes", "shown"),
    [
        (("Enabled", "[N/A]"), "on where cards can"),
        (("[Not Supported]",), "on where cards can"),
        (("Enabled", "Disabled"), "off on 1 of 2 cards"),
        ((), "the driver does not say"),
    ],
)
def test_what_only_some_cards_can_is_asked_of_those(modes: tuple[str, ...], shown: str) -> None:
    assert driver.accounting(modes) == shown


def test_a_driver_that_does_not_answer_does_not_say(tmp_path: Path) -> None:
    """F-ANS-03: what it says of its cards is asked once in a look, for everybody."""
    assert driver.read_driver(Probes(str(tmp_path)))["accounting"] == "the driver does not say"


def test_the_module_that_computes_is_loaded_at_every_boot(tmp_path: Path) -> None:
    probes = Probes(str(tmp_path))
    assert driver.module(probes) == "nvidia_uvm is not loaded"
    (tmp_path / "sys/module/nvidia_uvm").mkdir(parents=True)
    assert driver.module(probes) == "nvidia_uvm is loaded, but not at boot"
    folder = tmp_path / "usr/lib/modules-load.d"
    folder.mkdir(parents=True)
    (folder / "nvidia.conf").write_text("# of the driver\nnvidia\nnvidia-uvm\n")
    assert driver.module(probes) == "at boot"
