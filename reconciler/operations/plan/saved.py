"""Saved plans: a file with exactly one plan, in which any edit shows."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

from reconciler import __version__
from reconciler.atomic_file import write_file
from reconciler.model.canonical import canonical, digest
from reconciler.model.codec import decode, encode
from reconciler.model.plan.plan import Plan, fingerprint
from reconciler.model.problem import ProblemError, refuse
from reconciler.specs.regular_file import at_once

FORMAT = 1


def save_plan(plan: Plan, path: Path) -> None:
    """Write `plan` for one later apply: 0600, whole or not at all."""
    body = encode(plan)
    text = canonical(
        {"gpuaasPlan": FORMAT, "version": __version__, "digest": digest(body), "plan": body}
    )
    try:
        write_file(path, f"{text}\n".encode(), durable=True)
    except OSError as error:
        raise refuse(
            "file_unreadable",
            f"the plan cannot be saved to {path}: {error.strerror}",
            "choose a folder you may write to that has space left",
        ) from error


def read_plan(path: Path) -> Plan:
    """Read the plan saved in `path`.

    Raises ProblemError `plan_damaged` unless it is whole, and `plan_exposed` where somebody else
    could have changed it since it was looked at.
    """
    try:
        saved = json.loads(_read_own(path))
    except OSError as error:
        raise refuse(
            "plan_damaged", f"{path}: {error.strerror}", "name a file that `plan --save` wrote"
        ) from error
    except (ValueError, RecursionError) as error:
        raise _damaged(path, "it is no JSON") from error
    if not isinstance(saved, dict) or saved.get("gpuaasPlan") != FORMAT:
        raise _damaged(path, "it is no plan of this format")
    if digest(saved.get("plan")) != saved.get("digest"):
        raise _damaged(path, "it was changed after it was saved")
    try:
        plan = decode(Plan, saved["plan"])
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(path, "it was written by another version") from error
    if fingerprint(plan) != plan.fingerprint:
        raise _damaged(path, "its fingerprint is not that of its steps")
    return plan


def _read_own(path: Path) -> bytes:
    """What was read is what was looked at: the file that is open."""
    with open(path, "rb", opener=at_once) as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise _damaged(path, "it is no file")
        others = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if others or found.st_uid not in (0, os.geteuid()):
            raise refuse(
                "plan_exposed",
                f"{path} can be written by somebody else (mode {stat.S_IMODE(found.st_mode):04o}, "
                f"uid {found.st_uid}): it may not be the plan that you have looked at",
                "make a new one: gpuaas plan --save FILE",
            )
        return file.read()


def _damaged(path: Path, why: str) -> ProblemError:
    return refuse("plan_damaged", f"{path}: {why}", "make a new one: gpuaas plan --save FILE")
