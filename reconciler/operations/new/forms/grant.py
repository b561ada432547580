"""The form of a Grant: access of one person to one allocation, for a reason and a while."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from ipaddress import ip_network

from reconciler.kinds.allocation.spec import ALLOCATIONS
from reconciler.kinds.fleet_rules import policy_in
from reconciler.kinds.grant import GrantSpec
from reconciler.kinds.user import USERS
from reconciler.model.moment import format_moment, parse_moment
from reconciler.model.ref import NAME_LIMIT, Ref
from reconciler.model.spec.resource import Resource
from reconciler.operations.new.answers import among, end_in_time, one_line
from reconciler.operations.new.choices import (
    allocations,
    members,
    name_question,
    project_question,
)
from reconciler.operations.new.contract import (
    PROJECT,
    AnswerChoice,
    Answers,
    Form,
    NoAnswer,
    Part,
    Scene,
    SpecDraft,
    SpecQuestion,
)
from reconciler.operations.new.text import compose

ACCESS, LIMITS = "access", "limits"
HEADING = (
    "Access of one person to one allocation for a while. Removing this file ends the access,"
    " and the sessions opened by it. Each key with its meaning: gpuaas schema grant"
)


def guests(scene: Scene, answers: Answers) -> Sequence[AnswerChoice]:
    """Members who do not have access for the whole life of the allocation."""
    found = ALLOCATIONS.get(scene.desired, answers.one("allocation"), answers.one(PROJECT))
    inside = found.spec.access if found else ()
    return tuple(one for one in members(scene, answers) if one.word not in inside)


def guest(text: str, scene: Scene, answers: Answers) -> str:
    """Whoever has access for the whole life of the allocation needs no grant."""
    if text in {one.word for one in members(scene, answers)} - {
        one.word for one in guests(scene, answers)
    }:
        raise NoAnswer(
            f"{text} has access to {answers.one('allocation')} for its whole life already"
        )
    return among(guests, "member")(text, scene, answers)


def keys(scene: Scene, answers: Answers) -> Sequence[AnswerChoice]:
    user = USERS.get(scene.desired, answers.one("user"))
    return tuple(
        AnswerChoice(word=one.id, note=one.public_key.split()[0])
        for one in (user.spec.keys if user else ())
    )


def end(text: str, scene: Scene, answers: Answers) -> str:
    """Within what the Policy allows."""
    found, rules = end_in_time(text, scene, answers), policy_in(scene.desired).grant
    if found == "none":
        if not rules.may_be_open_ended:
            raise NoAnswer("the Policy allows no grant without an end")
        return found
    latest, moment = scene.now + timedelta(days=rules.max_days), parse_moment(found)
    if moment and moment > latest:
        most = f"{rules.max_days} days, until {format_moment(latest)}"
        raise NoAnswer(f"the Policy allows {most} at most")
    return found


def network(text: str, scene: Scene, answers: Answers) -> str:
    try:
        return str(ip_network(text))
    except ValueError as error:
        raise NoAnswer(f"{text!r} is no network: write it as in 10.0.0.0/8") from error


def usual_name(scene: Scene, answers: Answers) -> str:
    """`bo-on-train`, cut and counted until it is free."""
    stem = f"{answers.one('user')}-on-{answers.one('allocation')}"
    for number in range(1, 100):
        tail = "" if number == 1 else f"-{number}"
        name = re.sub(r"-+$", "", stem[: NAME_LIMIT - len(tail)]) + tail
        if not scene.desired.names(Ref("grant", answers.one(PROJECT), name)):
            return name
    return ""


def draft(scene: Scene, answers: Answers) -> SpecDraft:
    return compose(FORM.ref(answers), HEADING, tuple(_parts(answers)))


def _parts(answers: Answers) -> Iterator[Part]:
    yield Part(
        comment="Who may log in where. The person uses keys of their own.",
        entries={"allocation": answers.one("allocation"), "user": answers.one("user")},
    )
    if named := answers.all("key"):
        yield Part(comment="With these of their keys alone.", entries={"keys": list(named)})
    yield Part(
        comment="Until when, and why: kept with every event of it.",
        entries={"expiresAt": answers.one("expires"), "reason": answers.one("reason")},
    )
    if networks := answers.all("from"):
        yield Part(
            comment="From these networks alone.", entries={"options": {"from": list(networks)}}
        )


def facts(scene: Scene, answers: Answers, resource: Resource[GrantSpec]) -> Mapping[str, str]:
    spec = resource.spec
    user = USERS.get(scene.desired, spec.user)
    there = [one.id for one in user.spec.keys] if user else []
    return {
        "opens": f"allocation/{resource.ref.project}/{spec.allocation} to {spec.user}, keys:"
        f" {', '.join(spec.keys or there) or 'none'}",
        "ends": "never" if spec.expires_at == "none" else f"{spec.expires_at}, with its sessions",
        "lasts": "what they write into attached storage; nothing else of theirs",
        "warning": "" if spec.keys or there else f"{spec.user} has no key, so nothing opens yet",
    }


FORM = Form(
    kind="grant",
    about="Access for one person to one allocation, for a reason and a while.",
    questions=(
        project_question(ACCESS),
        SpecQuestion(
            name="allocation",
            step=ACCESS,
            asks="Allocation",
            help="Allocation of the project.",
            required=True,
            needs=PROJECT,
            choices=allocations,
            read=among(allocations, "allocation"),
        ),
        SpecQuestion(
            name="user",
            step=ACCESS,
            asks="Who",
            help="Member of the project who is to have access.",
            metavar="USER",
            required=True,
            needs="allocation",
            choices=guests,
            read=guest,
        ),
        SpecQuestion(
            name="expires",
            step=LIMITS,
            asks="Until when (a time, or as in 24h)",
            help="When it ends: a time, or a length from now such as 24h; none only where the"
            " Policy allows it.",
            metavar="TIME",
            required=True,
            read=end,
        ),
        SpecQuestion(
            name="reason",
            step=LIMITS,
            asks="Why",
            help="Why they need it; written into the file and kept with its events.",
            metavar="TEXT",
            required=True,
            read=one_line(),
        ),
        SpecQuestion(
            name="key",
            step=LIMITS,
            asks="With which of their keys (all if none is named)",
            help="Key of theirs that opens it, by its id; may be repeated; all if none is named.",
            metavar="ID",
            many=True,
            needs="user",
            choices=keys,
            read=among(keys, "key"),
        ),
        SpecQuestion(
            name="from",
            step=LIMITS,
            asks="From which network",
            help="Network that they may come from; may be repeated; any if none is named.",
            metavar="NETWORK",
            many=True,
            asked=False,
            read=network,
        ),
        name_question("grant", LIMITS, usual_name),
    ),
    draft=draft,
    facts=facts,
)
