"""The form of a Node: a host is asked what it is made of, and its answer becomes the spec."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reconciler.kinds.node.spec import NODES, NodeSpec
from reconciler.kinds.node_family import NODE_FAMILIES
from reconciler.model.ref import is_name
from reconciler.model.spec.resource import Resource
from reconciler.operations.new.answers import among, number_of, one_line
from reconciler.operations.new.choices import name_question
from reconciler.operations.new.contract import (
    AnswerChoice,
    Answers,
    Form,
    NoAnswer,
    Scene,
    SpecDraft,
    SpecQuestion,
)
from reconciler.operations.node.enroll import Target, discover

HOST = "host"
LONGEST_ADDRESS, LONGEST_KEY = 253, 2048
SSH_PORT = "22"


def families(scene: Scene, answers: Answers) -> Sequence[AnswerChoice]:
    return tuple(
        AnswerChoice(word=one.ref.name, note=one.spec.gpu.model)
        for one in NODE_FAMILIES.of(scene.desired)
    )


def first_label(scene: Scene, answers: Answers) -> str:
    """As people call hosts; an IP address is nobody's name."""
    name = answers.one("address").partition(".")[0].lower()
    taken = NODES.get(scene.desired, name) is not None
    return name if is_name(name) and not taken else ""


def address(text: str, scene: Scene, answers: Answers) -> str:
    found = one_line(LONGEST_ADDRESS)(text, scene, answers)
    if found == "local":
        raise NoAnswer("`local` is for practice alone: copy the starter's node for that")
    return found


def draft(scene: Scene, answers: Answers) -> SpecDraft:
    """Nothing is written to the host, nor placed there before somebody approves it."""
    target = Target(
        address=answers.one("address"),
        port=int(answers.one("port") or SSH_PORT),
        user=answers.one("user"),
        host_keys=answers.all("host-key"),
        name=answers.one("name"),
        family=answers.one("family"),
    )
    found = discover(scene.fleet, target, scene.confirm)
    return SpecDraft(text=found.yaml, documents=found.documents, notes=found.notes)


def facts(scene: Scene, answers: Answers, resource: Resource[NodeSpec]) -> Mapping[str, str]:
    spec = resource.spec
    return {
        "offers": f"{len(spec.slots)} slots of {spec.family}, isolation {spec.isolation}",
        "then": f"nothing is placed there before an operator approves it: gpuaas node approve"
        f" {resource.ref.name}",
    }


FORM = Form(
    kind="node",
    about="A host, as it describes itself; nothing is written to it.",
    folder="fleet",
    questions=(
        SpecQuestion(
            name="address",
            step=HOST,
            asks="Address of the host",
            help="Name or address of the host; gpuaas node bootstrap lets gpuaas log in there.",
            metavar="HOST",
            required=True,
            read=address,
        ),
        name_question("node", HOST, first_label),
        SpecQuestion(
            name="host-key",
            step=HOST,
            asks="Its host key or fingerprint, as its console shows it (else it is shown to you)",
            help="Public key of the host, or its SHA256 fingerprint; may be repeated.",
            metavar="KEY",
            read=one_line(LONGEST_KEY),
        ),
        SpecQuestion(
            name="family",
            step=HOST,
            asks="Family of its GPUs (the one that has them, if none is named)",
            help="NodeFamily; by default the one that has its GPUs.",
            choices=families,
            read=among(families, "family"),
        ),
        SpecQuestion(
            name="port",
            step=HOST,
            asks="SSH port",
            help="SSH port; 22 if not stated.",
            metavar="PORT",
            default=lambda scene, answers: SSH_PORT,
            read=number_of(1, 65535),
        ),
        SpecQuestion(
            name="user",
            step=HOST,
            asks="Control login",
            help="Control login; by default that of gpuaas.yaml, or gpuaas.",
            metavar="LOGIN",
            asked=False,
            read=one_line(32),
        ),
    ),
    draft=draft,
    facts=facts,
)
