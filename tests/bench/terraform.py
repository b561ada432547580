"""Terraform's plan of an unchanged state, where it is installed: the nearest peer's figure.

Its own resource `terraform_data` needs no provider and no network. The state is written as its
apply would have left it, so that only the plan is measured.
"""

from __future__ import annotations

import json
import shutil
import uuid
from pathlib import Path
from typing import Any

from tests.bench.measuring import Run, run


def configuration(count: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """`count` resources of about the size of our documents, and the state that they are in."""
    resources: dict[str, Any] = {}
    instances = []
    for number in range(count):
        name = f"r{number}"
        value = {
            "displayName": f"Person {name}",
            "emails": [f"{name}@corp.example", f"{name}@lab.example"],
            "keys": {key: f"ssh-ed25519 {name}-{key}" for key in ("laptop", "desk", "travel")},
        }
        resources[name] = {"input": value}
        instances.append(instance(name, value))
    state = {
        "version": 4,
        "terraform_version": "1.0.0",
        "serial": 1,
        "lineage": str(uuid.uuid5(uuid.NAMESPACE_DNS, "bench.example")),
        "outputs": {},
        "resources": instances,
        "check_results": None,
    }
    return {"resource": {"terraform_data": resources}}, state


def instance(name: str, value: dict[str, Any]) -> dict[str, Any]:
    keys = ["object", dict.fromkeys(value["keys"], "string")]
    emails = ["tuple", ["string", "string"]]
    kind = {"displayName": "string", "emails": emails, "keys": keys}
    known = {"value": value, "type": ["object", kind]}
    return {
        "mode": "managed",
        "type": "terraform_data",
        "name": name,
        "provider": 'provider["terraform.io/builtin/terraform"]',
        "instances": [
            {
                "schema_version": 0,
                "attributes": {
                    "id": str(uuid.uuid5(uuid.NAMESPACE_DNS, name)),
                    "input": known,
                    "output": known,
                    "triggers_replace": None,
                },
                "sensitive_attributes": [],
            }
        ],
    }


def plan(work: Path, count: int) -> Run | None:
    """One unchanged plan; None where Terraform is not installed."""
    if shutil.which("terraform") is None:
        return None
    folder = work / f"terraform-{count}"
    folder.mkdir()
    wanted, state = configuration(count)
    (folder / "main.tf.json").write_text(json.dumps(wanted), encoding="utf-8")
    (folder / "terraform.tfstate").write_text(json.dumps(state), encoding="utf-8")
    run(["terraform", "init", "-input=false", "-no-color"], folder)
    done = run(["terraform", "plan", "-input=false", "-no-color", "-detailed-exitcode"], folder)
    shutil.rmtree(folder)
    return done
