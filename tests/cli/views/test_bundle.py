"""What people read of bundles: versions, evidence, users, and what to do next."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from reconciler.cli.text import TextLine
from reconciler.cli.views import bundle as view
from reconciler.model.spec.desired import Origin
from reconciler.operations.bundle.bundle import GONE, BundleRow, BundleShown, BundleStanding
from reconciler.operations.bundle.catalogue import BundleAdded, BundleOffer, Catalogue
from reconciler.operations.bundle.mirror import Mirrored, MirroredVersion

TRAIN = "allocation/vision/train"
ON_GPU01 = BundleStanding(
    node="gpu01",
    state="staged",
    since="2026-12-01T09:14:00Z",
    digest="sha256:aa",
    shown="staged sha256:aa",
    observed_at="2026-12-02T09:14:00Z",
    agrees=True,
    is_current=True,
    used_by=(TRAIN,),
)
CHANGED = replace(ON_GPU01, node="gpu02", shown="changed 2: lib/x.py", agrees=False, used_by=())
ROW = BundleRow(
    bundle="pytorch",
    version="2.13.0-cpu",
    state="active",
    display_name="PyTorch",
    support_level="preview",
    runs_on="no GPU needed",
    python="3.11",
    lock="bundles/pytorch-2.13.0-cpu.txt",
    lock_digest=f"sha256:{'a' * 64}",
    index="mirror",
    imports=("numpy", "torch"),
    nodes=(ON_GPU01, CHANGED),
)
OFFER = BundleOffer(bundle="jupyter", display_name="JupyterLab", versions=("4.6.6",))
SHOWN = BundleShown(
    ref="bundle/pytorch",
    versions=(ROW,),
    is_applied=False,
    file="specs/bundles/pytorch.yaml",
    line=4,
    origin=Origin(commit="3f9c2e1aa", author="olga"),
)


def text(lines: Iterable[TextLine]) -> str:
    return "\n".join("".join(span.text for span in line.spans).rstrip() for line in lines)


def test_a_list() -> None:
    """BND-02, BND-09, BND-17, BND-28: each version, how many nodes show otherwise, who uses it."""
    rest = replace(ROW, version="2.12", state=GONE, runs_on="", nodes=())
    shown = text(view.rows(Catalogue(bundles=(ROW, rest), shipped=(OFFER,))))
    assert shown.splitlines()[0].split() == view.TITLES.split()
    assert "2 staged · 1 shown otherwise" in shown and "vision/train" in shown
    assert "gone    unknown" in shown
    assert "JupyterLab  4.6.6     gpuaas bundle add jupyter" in shown
    empty = text(view.rows(Catalogue(bundles=(), shipped=())))
    assert empty == "the fleet has no bundle"


def test_many_users_are_counted() -> None:
    crowd = replace(ON_GPU01, used_by=tuple(f"allocation/vision/a{n}" for n in range(9)))
    shown = text(view.rows(Catalogue(bundles=(replace(ROW, nodes=(crowd,)),), shipped=())))
    assert "vision/a0, vision/a1 and 7 more" in shown


def test_one_in_full() -> None:
    """BND-01, BND-20, BND-26, BND-28: what is recorded, and what is shown where it differs."""
    shown = text(view.lines(SHOWN))
    assert "bundle/pytorch   PyTorch   preview" in shown
    assert "specs/bundles/pytorch.yaml:4 in 3f9c2e1 by olga" in shown
    assert "not as it stands there" in shown and "is theirs" in shown
    assert "(sha256:aaaaaaaaaaaa…), Python 3.11, from index mirror" in shown
    assert "tried by   importing numpy, torch\n" in shown
    first, second = [line for line in shown.splitlines() if line.startswith("gpu")]
    assert "gpu01 (the host's default)  staged" in first and "the same" in first
    assert "vision/train" in first
    assert "changed 2: lib/x.py" in second


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (replace(ROW, asks_for_gpu=True), "importing numpy, torch; not on a GPU, as it asks to be"),
        (replace(ROW, imports=()), "nothing"),
    ],
)
def test_what_was_not_tried_is_said(row: BundleRow, says: str) -> None:
    """BND-28: a version counts as tried by what was tried, and not by what its author wished."""
    assert f"  {says}\n" in text(view.lines(replace(SHOWN, versions=(row,))))


@pytest.mark.parametrize(
    ("standing", "says"),
    [
        (replace(ON_GPU01, shown=None, agrees=None), "unknown"),
        (replace(ON_GPU01, shown="", agrees=False), "nothing"),
        (BundleStanding(node="gpu01", used_by=(TRAIN,)), "wanted"),
        (
            replace(ON_GPU01, state="failed", problem="runtime_hash_wrong: torch", agrees=True),
            "runtime_hash_wrong: torch",
        ),
    ],
)
def test_what_nobody_knows_is_not_well(standing: BundleStanding, says: str) -> None:
    shown = text(view.lines(replace(SHOWN, versions=(replace(ROW, nodes=(standing,)),))))
    assert says in next(line for line in shown.splitlines() if line.startswith("gpu01"))


def test_nothing_has_happened_by_an_addition() -> None:
    """Rule 10: an edit says how to go on; new files are to be added before they are committed."""
    done = BundleAdded(
        ref="bundle/jupyter",
        versions=("4.6.6",),
        file="specs/bundles/jupyter.yaml",
        line=2,
        locks=("bundles/jupyter-4.6.6.txt",),
    )
    shown = text(view.added(done))
    assert "Nothing has happened yet. Commit it, then apply:" in shown
    assert "git add -- specs/bundles/jupyter.yaml bundles/jupyter-4.6.6.txt" in shown
    assert "Committed as 3f9c2e1" in text(view.added(replace(done, commit="3f9c2e1aa")))
    assert "has every version of jupyter" in text(view.added(replace(done, versions=())))


def test_a_mirror_says_how_hosts_come_to_it() -> None:
    one = MirroredVersion(bundle="jupyter", version="4.6.6", wheels=("a.whl", "b.whl"), mib=46)
    shown = text(view.mirrored(Mirrored(folder="/srv/mirror", versions=(one,))))
    assert "mirrored jupyter 4.6.6: 2 wheels, 46 MiB" in shown
    assert "index: {mirror: file:///srv/mirror}" in shown
