"""Saved plans: a file that holds exactly one plan and shows when somebody touched it."""

from __future__ import annotations

import json
import os
from pathlib import Path

from reconciler import __version__
from reconciler.model.canonical import canonical, digest
from reconciler.model.codec import decode, encode
from reconciler.model.plan import Plan, fingerprint
from reconciler.model.problem import ProblemError, refuse

FORMAT = 1


def save_plan(plan: Plan, path: Path) -> None:
    """Write `plan` for one later apply: 0600, whole or not at all."""
    body = encode(plan)
    text = canonical(
        {"gpuaasPlan": FORMAT, "version": __version__, "digest": digest(body), "plan": body}
    )
    partial = path.with_name(path.name + ".partial")
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise refuse(
            "file_unreadable",
            f"the plan cannot be saved to {path}: {error.strerror}",
            "choose a folder you may write to that has space left",
        ) from error


def read_plan(path: Path) -> Plan:
    """The plan saved in `path`. Raises ProblemError `plan_damaged` unless it is whole."""
    try:
        saved = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise refuse(
            "plan_damaged", f"{path}: {error.strerror}", "name a file that `plan --save` wrote"
        ) from error
    except ValueError as error:
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


def _damaged(path: Path, why: str) -> ProblemError:
    return refuse("plan_damaged", f"{path}: {why}", "make a new one: gpuaas plan --save FILE")
