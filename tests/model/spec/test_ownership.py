"""Ownership: where a document may stand, and below which folders one may."""

from __future__ import annotations

import pytest

from reconciler.model.ref import Ref
from reconciler.model.settings import OwnershipRule, Settings
from reconciler.model.spec.ownership import may_stand, may_stand_below

ANA = Ref("user", "", "ana")
TRAIN = Ref("allocation", "vision", "train")


def settings(*rules: tuple[str, str, str]) -> Settings:
    ownership = (
        OwnershipRule(path=path, kinds=tuple(kinds.split()), projects=tuple(projects.split()))
        for path, kinds, projects in rules
    )
    return Settings(folder="/x", operators=(), ownership=tuple(ownership))


SOME = (
    ("people/*", "User", ""),
    ("teams/*/vision", "", "vision"),
    ("teams/*/nlp/**", "", "nlp"),
    ("deep/**/vision.yaml", "Allocation", ""),
    ("shared", "User Allocation", ""),
    ("shared/closed", "Policy", ""),
)


@pytest.mark.parametrize(
    ("place", "ana", "train"),
    [
        ("people", True, False),
        ("people/x.yaml", True, False),
        ("people/inner", True, False),
        ("teams", False, True),
        ("teams/a", False, True),
        ("teams/a/nlp", False, False),
        ("teams/a/vision", False, True),
        ("teams/a/vision/x.yaml", False, True),
        ("teams/a/other.yaml", False, False),
        ("deep", False, True),
        ("deep/er/still", False, True),
        ("shared/x", True, True),
        ("shared/closed", False, False),
        ("shared/closed/x.yaml", False, False),
        ("nowhere", False, False),
    ],
)
def test_below_a_place(place: str, ana: bool, train: bool) -> None:
    asked = settings(*SOME)
    assert may_stand_below(asked, ANA, f"specs/{place}") is ana
    assert may_stand_below(asked, TRAIN, f"specs/{place}") is train


def test_what_may_stand_in_a_file_may_stand_below_all_its_folders() -> None:
    asked = settings(*SOME)
    for file in ("people/a/b.yaml", "teams/a/vision/x.yaml", "deep/a/b/vision.yaml", "shared/y"):
        for ref in (ANA, TRAIN, Ref("allocation", "nlp", "box")):
            parts = f"specs/{file}".split("/")
            if may_stand(asked, ref, f"specs/{file}"):
                below = ["/".join(parts[:end]) for end in range(2, len(parts) + 1)]
                assert all(may_stand_below(asked, ref, place) for place in below)


def test_without_rules_anything_stands_anywhere() -> None:
    assert may_stand(settings(), ANA, "specs/x.yaml")
    assert may_stand_below(settings(), ANA, "specs/x")
