"""`node discover`: an unknown host becomes a Node for people to read and approve.

Nothing is written to any host, nor to the state. A key that a host shows is believed only if
somebody has given or confirmed it, or if the specs hold it already (rule 8).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

from reconciler import shipped
from reconciler.hosts.ssh import discover as ssh_discover
from reconciler.kinds.access.ssh_key import SshKey, listed, parse_public_key
from reconciler.kinds.node.proposal import NodeAddress, Proposal, propose
from reconciler.kinds.node.spec import CONTROL_LOGIN, NODES, NodeSpec
from reconciler.kinds.node_family import NodeFamilySpec
from reconciler.model.host.evidence import NodeFacts
from reconciler.model.plan.work import Host
from reconciler.model.problem import ProblemError, refuse
from reconciler.model.records import dataclass
from reconciler.model.ref import is_name
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.reading import whole
from reconciler.model.spec.resource import Resource
from reconciler.operations.fleet import Fleet
from reconciler.operations.node.families import family_for, with_family
from reconciler.operations.observe import identity_file, run_options
from reconciler.operations.specs import read_desired
from reconciler.specs.edit import edit, yaml_writer
from reconciler.specs.read.check_file import Judge

MAX_NOTES, MAX_NOTE = 40, 300

HINTS: Mapping[str, str] = {
    "host_unreachable": "may gpuaas log in there? gpuaas node bootstrap --print",
    "no_root_on_host": "make the host ready: gpuaas node bootstrap --print",
    "no_python_on_host": "make the host ready: gpuaas node bootstrap --print",
    "host_identity_changed": "compare the key with what the host's own console shows of it",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where to look, and what the operator knows. `host_keys` are public keys or fingerprints.

    Without a `user`, the one that the specs or gpuaas.yaml name.
    """

    address: str
    port: int = 22
    user: str = ""
    host_keys: tuple[str, ...] = ()
    accept_shown: bool = False
    name: str = ""
    family: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovered:
    """`documents` are a Node, and before it its NodeFamily where the specs have none for it.

    `notes` say what the host did not tell, which cards got no slot, and what the specs have
    already. `source` is host or standin.
    """

    name: str
    documents: tuple[Mapping[str, object], ...]
    source: str
    notes: tuple[str, ...] = field(default=())

    @property
    def yaml(self) -> str:
        whose = " Its cards are a TEST STAND-IN, not GPUs." if self.source == "standin" else ""
        head = f"# Node {self.name}, as its host describes itself.{whose}\n"
        return head + "---\n".join(map(yaml_writer.document, self.documents))


Confirm = Callable[[tuple[str, ...]], bool]
"""Asked whether host keys, each as `ssh-keygen -l` lists it, are those of the host."""


def discover(fleet: Fleet, target: Target, confirm: Confirm) -> Discovered:
    """Ask a host what it is made of, and propose a Node. Raises ProblemError."""
    desired = read_desired(fleet)
    before = _node_at(desired, target)
    target = replace(
        target,
        name=before.ref.name if before else _name(target),
        user=target.user
        or (before.spec.ssh.user if before else "")
        or fleet.settings.ssh.user
        or CONTROL_LOGIN,
    )
    target = replace(target, host_keys=_keys(target, before, confirm))
    host = Host(
        node=target.name,
        address=target.address,
        root="/",
        isolation="account",
        port=target.port,
        user=target.user,
        host_keys=target.host_keys,
        identity_file=identity_file(fleet),
    )
    seen = ssh_discover.discover(host, run_options(fleet), at=fleet.now())
    if seen.facts is None:
        code = seen.problem or "observation_failed"
        raise refuse(code, f"{target.address}: {seen.message}", HINTS.get(code, ""))
    return propose_node(desired, target, seen.facts)


def propose_node(desired: Desired, target: Target, facts: NodeFacts) -> Discovered:
    """The documents for a host with these facts. A machine that the specs know keeps its name.

    Raises ProblemError `discovery_incomplete` where that would be no Node, or `family_unclear`.
    """
    known = next((node for node in NODES.of(desired) if _is_machine(node, facts)), None)
    name = known.ref.name if known else target.name
    family = family_for(desired, target.family, facts)
    wish = NodeAddress(
        address=target.address,
        host_keys=target.host_keys,
        family=family.ref.name if family else target.family,
        port=target.port,
        user=target.user or CONTROL_LOGIN,
    )
    proposal = propose(facts, wish, with_family(desired, family))
    _check_whole(target.address, proposal)
    documents = [_document("Node", name, proposal.spec)]
    if family is not None:
        documents.insert(0, _document("NodeFamily", family.ref.name, whole(family).spec))
    notes = (*_in_specs(desired, target, name, facts), *_of_family(family), *proposal.notes)
    found = Discovered(
        name=name, documents=tuple(documents), source=facts.source, notes=_shortened(notes)
    )
    _check_sound(target.address, found)
    return found


def write(fleet: Fleet, found: Discovered, path: Path) -> str:
    """Put the documents into a new file of the spec tree, and return its name. Raises
    ProblemError.
    """
    return edit.create(fleet.settings, path, found.yaml)


def _node_at(desired: Desired, target: Target) -> Resource | None:
    """The node that the specs have at this address; its keys are known, not shown."""
    place = (target.address, target.port)
    return next(
        (
            node
            for node in NODES.of(desired)
            if node.spec.identity and (node.spec.address, node.spec.ssh.port) == place
        ),
        None,
    )


def _login(fleet: Fleet, before: Resource | None) -> str:
    stated = before.spec.ssh.user if before else ""
    return stated or fleet.settings.ssh.user or CONTROL_LOGIN


def _name(target: Target) -> str:
    """The first word of a host name, as people call hosts; an IP address is nobody's name."""
    first = target.name or target.address.split(".")[0].lower()
    if is_name(first):
        return first
    if target.name:
        raise refuse("usage", f"{first} is no name", "lower case, digits and dashes, as in gpu01")
    raise refuse("usage", f"{target.address} gives no name for the node", "give one: --name gpu01")


def _keys(target: Target, before: Resource | None, confirm: Confirm) -> tuple[str, ...]:
    """The keys to believe the host by. Raises ProblemError `host_key_unseen` if nobody knows any.

    Fingerprints are looked for among the keys that are shown; a whole key needs no look.
    """
    given = [key for key in target.host_keys if not key.startswith("SHA256:")]
    wanted = {key for key in target.host_keys if key.startswith("SHA256:")}
    keys = [_plain(_read(key)) for key in given]
    if not target.host_keys and before and not target.accept_shown:
        return tuple(before.spec.identity.host_keys)
    if target.host_keys and not wanted:
        return tuple(keys)
    found = (parse_public_key(key) for key in ssh_discover.scan(target.address, target.port))
    shown = [key for key in found if isinstance(key, SshKey)]
    lines = tuple(listed(key, target.address) for key in shown)
    if wanted:
        chosen = [key for key in shown if key.fingerprint in wanted]
        if wanted <= {key.fingerprint for key in chosen}:
            return (*keys, *map(_plain, chosen))
    elif shown and (target.accept_shown or confirm(lines)):
        return tuple(map(_plain, shown))
    raise _unseen(target, shown)


def _unseen(target: Target, shown: Sequence[SshKey]) -> ProblemError:
    about = "shows no key like the one given" if target.host_keys else "shows unconfirmed keys"
    keys = ", ".join(f"{key.fingerprint} ({key.type})" for key in shown)
    return refuse(
        "host_key_unseen",
        f"{target.address} {about}: {keys or 'none that is safe to use'}",
        "on the host's own console: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub; "
        "if it says the same: --host-key SHA256:…, or the whole key",
    )


def _read(text: str) -> SshKey:
    key = parse_public_key(text)
    if isinstance(key, SshKey):
        return key
    raise ProblemError((replace(key, message=f"--host-key: {key.message}"),))


def _plain(key: SshKey) -> str:
    return f"{key.type} {key.blob}"


def _is_machine(node: Resource[NodeSpec], facts: NodeFacts) -> bool:
    identity = node.spec.identity
    known = identity.machine_id if identity else ""
    return bool(facts.machine_id) and known == facts.machine_id


def _check_whole(address: str, proposal: Proposal) -> None:
    spec = proposal.spec
    lacking = {
        "its machine id": spec["identity"]["machineId"],
        "the family of its cards": spec.get("family"),
        "a card that a slot can be made of": spec["slots"],
    }
    if missing := [what for what, value in lacking.items() if not value]:
        raise refuse(
            "discovery_incomplete",
            f"{address} does not tell enough to be a node; unknown: {', '.join(missing)}",
            "; ".join(_shortened(proposal.notes)),
        )


def _check_sound(address: str, found: Discovered) -> None:
    """Read what is printed for people to commit first, as the specs would be."""
    judged = Judge(shipped.schemas()).judge("discovered.yaml", found.yaml.encode("utf-8"))
    flaws = [problem for problem in judged.problems if problem.is_error]
    if flaws or len(judged.resources) != len(found.documents):
        first = flaws[0] if flaws else None
        where = ".".join(map(str, first.source.path)) if first and first.source else found.name
        raise refuse(
            "host_answer_invalid",
            f"{address} tells of itself what no spec may hold: {where}: "
            f"{first.message if first else 'it reads as other documents'}",
            "look at the host itself; nothing was written",
        )


def _shortened(notes: Sequence[str]) -> tuple[str, ...]:
    """A host's text, cut to a length that people read."""
    told = tuple(note[:MAX_NOTE] for note in notes[:MAX_NOTES])
    left = len(notes) - len(told)
    return (*told, f"and {left} notes more") if left else told


def _document(kind: str, name: str, spec: Mapping[str, object]) -> Mapping[str, object]:
    return {"apiVersion": "gpuaas/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def _in_specs(desired: Desired, target: Target, name: str, facts: NodeFacts) -> Iterator[str]:
    """What the specs have of this machine already; two nodes of one machine are refused."""
    node = NODES.get(desired, name)
    identity = node.spec.identity if node else None
    known = identity.host_keys if identity else ()
    if node and _is_machine(node, facts) and {*target.host_keys} & {*known}:
        yield f"this machine is node {name} already, in {node.file}: put what changed there"
    elif node and _is_machine(node, facts):
        yield (
            f"it says that it is node {name}, in {node.file}, and has none of its host keys: "
            "any host could say so; put nothing there before somebody has looked at both"
        )
    elif node:
        yield (
            f"the name {name} is taken by another machine, in {node.file}: give one by --name, or "
            "replace its identity there if this is the same host, installed anew"
        )
    cards = {gpu.uuid for gpu in facts.gpus or ()}
    keys = set((facts.topology.host_keys if facts.topology else None) or ())
    for other in NODES.of(desired):
        if (
            other.ref.name != name
            and other.spec.identity
            and keys & {*other.spec.identity.host_keys}
        ):
            yield f"a host key that it shows is that of node {other.ref.name}: cloned?"
        for slot in other.spec.slots if other.ref.name != name else ():
            if slot.gpu.uuid in cards:
                yield f"{slot.gpu.uuid} is in slot {slot.name} of node {other.ref.name}: moved?"


def _of_family(family: Resource[NodeFamilySpec] | None) -> Iterator[str]:
    if family is not None:
        yield f"no NodeFamily fits: {family.ref.name} is proposed with it, from this one host"
