"""A fleet in which every text field of every kind holds every hostile text that it takes.

Its nodes, people, projects, SKUs and allocations are called by hostile texts that are legal names.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from reconciler.kinds.access.ssh_key import SshKey, parse_public_key
from reconciler.model.ref import KIND_WORDS, is_name
from reconciler.operations.node.directory_host import DRIVER
from reconciler.specs.edit.yaml_writer import document as emitted
from tests.fleets import public_key
from tests.harness.yard import Yard
from tests.planner import fleet as paper
from tests.security.corpus import HOSTILE
from tests.security.fields import Sample, Where, accepts, samples, stated

SETTINGS = """\
operators: [olga]
publish: {dir: published, sshHostSuffix: gpu}
index: {mirror: "https://mirror.corp.example/simple"}
"""
NAMES = tuple(text for text in HOSTILE if is_name(text) and text not in KIND_WORDS.values())
SLOTS, FREE = 16, 2
LOCK = f"hello==1.0 --hash=sha256:{'0' * 64}\n"
LABELS = 16

EFFECTLESS = ("sku", "storage_class", "bundle", "node_family", "user")
UNSUPPORTED = ("app", "app_manifest", "artifact")
"""Kinds that this version reads, checks and plans, and then says that it cannot do them yet."""

Document = dict[str, Any]


def founded(folder: Path) -> Yard:
    """Everything written and committed, the stand-ins of all nodes laid, nothing applied."""
    (folder / "gpuaas.yaml").write_text(SETTINGS, encoding="utf-8")
    yard = Yard(folder)
    for kind, documents in _by_kind(everything()).items():
        for install in _installs(documents):
            _lock(folder, install)
        path = yard.specs / f"{kind}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text("---\n".join(map(emitted, documents)), encoding="utf-8")
    made = yard.gpuaas("init")
    assert made.code == 0, made.document
    yard.commit()
    yard.lay_nodes()
    return yard


def everything() -> Iterator[Document]:
    yield policy()
    base = {"os": ["debian-12"], "driverBranches": [DRIVER.split(".")[0]]}
    yield paper.family(base=base)
    for number, name in enumerate(NAMES):
        yield node(name, number)
        yield paper.sku(name, 1, displayName=HOSTILE[number] or "x")
        yield paper.user(name)
        yield project(name, number)
        yield allocation(name, number)
    yield paper.user("olga")
    for number, text in enumerate(HOSTILE):
        yield from grant(number, text)
        for kind in (*EFFECTLESS, *UNSUPPORTED):
            yield from infested(kind, number, text)


def _by_kind(documents: Iterable[Document]) -> Mapping[str, list[Document]]:
    found: dict[str, list[Document]] = {}
    for one in documents:
        found.setdefault(KIND_WORDS[one["kind"]], []).append(one)
    return found


def _installs(documents: Iterable[Document]) -> Iterator[dict[str, Any]]:
    bundles = (one for one in documents if one["kind"] == "Bundle")
    for version in (each for one in bundles for each in one["spec"]["versions"]):
        # Nothing is built here: what is tried is what texts do, and these wheels are nowhere.
        version.pop("stageOn", None)
        if "install" in version:
            yield version["install"]


def _lock(folder: Path, install: dict[str, Any]) -> None:
    """Requirements that are as agreed, wherever they lie."""
    path = folder / install["lock"]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(LOCK, encoding="utf-8")
    install["lockDigest"] = "sha256:" + hashlib.sha256(LOCK.encode()).hexdigest()


def taken(field: str, texts: Iterable[str] = HOSTILE) -> list[str]:
    return [text for text in texts if accepts(field, text)]


def policy() -> Document:
    notes = taken("policy.spec.acceptedDrift[].key")
    drift = [
        {"ref": f"node/{NAMES[0]}", "key": text, "reason": text, "owner": "olga"} for text in notes
    ]
    return paper.policy(
        guard={"maxRemovals": 5, "maxRemovalPercent": 100},
        grant={"mayBeOpenEnded": True},
        acceptedDrift=[{**one, "until": "2030-01-01T00:00:00Z"} for one in drift],
    )


def node(name: str, number: int) -> Document:
    """All slots but a few are disabled, for all sorts of reasons."""
    texts = _share(taken("node.spec.slots[].disabled.reason"), number)
    slots = []
    for at in range(SLOTS):
        slot = paper.slot(f"{number}", at, cpus=f"{at * 8}-{at * 8 + 7}")
        uuid = f"GPU-00000000-0000-0000-{number:04}-{at:012}"
        text = texts[at % len(texts)]
        slot["gpu"] = {**slot["gpu"], "uuid": uuid, "serial": text}
        slots.append({**slot, "disabled": {"reason": text, "ticket": text}} if at >= FREE else slot)
    made = paper.node(name, slots, admin={"reason": texts[0]})
    return _labelled(made, number)


def project(name: str, number: int) -> Document:
    """Everybody whose grant is for its one allocation is a member."""
    more = [{"user": f"user-{at}", "role": "member"} for at in range(len(HOSTILE))]
    made = paper.project(
        name,
        name,
        displayName=taken("project.spec.displayName")[number],
        entitlements={"skus": [name], "storageClasses": ["storage-class-0"]},
    )
    made["spec"]["members"] += more[number :: len(NAMES)]
    return _labelled(made, number)


def allocation(name: str, number: int) -> Document:
    reason = taken("allocation.spec.restart.reason")[number]
    made = paper.allocation(name, name, name, owner=name, restart={"reason": reason})
    return _labelled(made, number)


def grant(number: int, text: str) -> Iterator[Document]:
    if accepts("grant.spec.reason", text):
        place = NAMES[number % len(NAMES)]
        made = paper.grant(
            f"grant-{number}", place, f"user-{number}", place, reason=text, expiresAt="none"
        )
        yield _labelled(made, number)


def infested(kind: str, number: int, text: str) -> Iterator[Document]:
    """The sample of a kind with the text in all fields that take it, but for names and choices."""
    sample = _whole(kind)
    made: Document = copy.deepcopy(dict(sample.value))
    name = f"{kind.replace('_', '-')}-{number}"
    made["metadata"] = {"name": name, "labels": {"note": "x"}}
    if kind == "app":
        made["metadata"]["project"] = NAMES[0]
    _rename(kind, made, number, text)
    for field in sample.fields:
        if field.path[0] == "spec" and _is_free(field.sample) and accepts(field.name, text):
            _put(made, field.path, text)
    if accepts(f"{kind}.metadata.labels.<value>", text):
        made["metadata"]["labels"]["note"] = text
    if accepts(f"{kind}.metadata.labels.<key>", text):
        made["metadata"]["labels"][text] = "x"
    yield made


def _rename(kind: str, made: Document, number: int, text: str) -> None:
    """What a sample refers to, by the names that things have here."""
    spec = made["spec"]
    if kind == "user":
        key = public_key(f"user-{number}")
        with_comment = f"{key.rpartition(' ')[0]} {text}"
        fine = accepts("user.spec.keys[].publicKey", with_comment)
        if fine and isinstance(parse_public_key(with_comment), SshKey):
            key = with_comment
        spec["keys"] = [{"id": "laptop", "publicKey": key}]
        spec["emails"] = [f"user-{number}@corp.example"]
        spec["osLogins"] = [f"u{number}"]
    elif kind == "storage_class":
        spec["available"]["nodes"] = [NAMES[0]]
    elif kind == "bundle":
        spec["versions"][0]["stageOn"]["nodes"] = [NAMES[0]]
    elif kind == "storage":
        spec |= {"class": "storage-class-0", "node": NAMES[0]}
    elif kind == "app":
        spec |= {"manifest": f"app-manifest-{number}", "members": []}
        spec["members"] = [{"allocation": NAMES[0], "role": "node"}]


def _is_free(sample: str) -> bool:
    """Samples of free texts are the word `text`; all else refers to something or is a choice."""
    return sample == "text"


@cache
def _whole(kind: str) -> Sample:
    return next(one for one in samples() if one.schema == kind)


def _put(value: Any, path: Where, text: str) -> None:
    *above, last = path
    for part in above:
        value = value[part]
    value[last] = text


def _labelled(made: Document, number: int) -> Document:
    """With as many labels as may be, keys and values hostile."""
    values = _share(taken("grant.metadata.labels.<value>"), number)
    keys = taken("grant.metadata.labels.<key>")
    names = [*keys, *(f"l{at}" for at in range(LABELS))][:LABELS]
    made["metadata"]["labels"] = {
        name: values[at % len(values)] for at, name in enumerate(names[-LABELS:])
    }
    return made


def _share(texts: list[str], number: int) -> list[str]:
    """So many of them, others for each number."""
    start = number * LABELS % len(texts)
    return [*texts[start:], *texts][:LABELS]


def held(documents: Iterable[Document]) -> set[tuple[str, str]]:
    """Which text fields hold which hostile texts."""
    hostile = frozenset(HOSTILE)
    found = set()
    for one in documents:
        for field in stated(KIND_WORDS[one["kind"]], one):
            if field.sample in hostile:
                found.add((field.name, field.sample))
    return found
