"""Grants at the moment of the plan: who may give one, and how long one may last from now on.

Whom an allocation lets in by its `access` is judged by the same rule. Taking away is refused to
nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta

from reconciler.kinds.access import OPEN_ENDED, in_force
from reconciler.kinds.once import once
from reconciler.model.desired import Desired, Origin
from reconciler.model.moment import parse_moment
from reconciler.model.plan import Action
from reconciler.model.problem import Problem
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.resource import Resource
from reconciler.planner.absence import doubted
from reconciler.planner.diff import Difference
from reconciler.planner.limits import is_operator

MAY_GRANT = frozenset({"owner", "maintainer"})
MEMBER = "member"
BEGINS = frozenset({Action.CREATE, Action.ADOPT, Action.RESTORE})
"""Actions by which somebody is let in who was not; all others give as well, by what they change."""

DEFAULT_MAX_DAYS = 30
NOBODY: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Giving:
    """A grant that is new, changes or has another name, and who wrote it last."""

    grant: Resource
    is_new: bool
    desired: Desired
    origin: Origin
    now: datetime


def refuse_grants(
    differences: Iterable[Difference],
    desired: Desired,
    origins: Mapping[Ref, Origin],
    now: datetime,
) -> Mapping[Ref, Problem]:
    """The first objection to each grant that would be given or changed, and to each `access`."""
    refused = {}
    for one in differences:
        if one.ref.kind == "allocation" and one.resource is not None:
            problem = _access_refused(one, one.resource, desired, origins.get(one.ref, Origin()))
            if problem is not None:
                refused[one.ref] = problem
        if one.ref.kind != "grant" or one.resource is None:
            continue
        if one.ref in desired.lessened:
            continue
        giving = Giving(
            grant=one.resource,
            is_new=one.action in BEGINS,
            desired=desired,
            origin=origins.get(one.ref, Origin()),
            now=now,
        )
        problem = next(filter(None, (rule(giving) for rule in RULES)), None)
        if problem is not None:
            refused[one.ref] = problem
    return refused


def _role_cannot_grant(giving: Giving) -> Problem | None:
    """Who is known to the fleet is held to his role.

    An author whom no User names can be anybody, as git believes whatever it is told: there the
    ownership of paths is the boundary, and the plan shows the name.
    """
    if giving.origin.doubt is not None:
        return _problem(giving.grant, giving.origin.doubt, *doubted(giving.origin.doubt))
    author = _author(giving.grant, giving.desired, giving.origin)
    if author.may_grant:
        return None
    return _problem(
        giving.grant,
        "role_cannot_grant",
        f"{author.told}, and wrote this grant",
        "an owner or a maintainer of the project, or an operator, may give one",
    )


def _access_refused(
    difference: Difference, allocation: Resource, desired: Desired, origin: Origin
) -> Problem | None:
    """Whoever may not give a grant lets nobody in but himself, and that as a member alone."""
    kept = difference.recorded if difference.action is not Action.CREATE else None
    before = kept.normal["spec"]["access"] if kept is not None else ()
    added = set(allocation.spec.access) - set(before)
    if not added or allocation.ref in desired.lessened:
        return None
    if origin.doubt is not None:
        # Whoever is to own it has to be let in; and by whom that was written nobody can say.
        if added <= {allocation.spec.owner}:
            return None
        return _problem(allocation, origin.doubt, *doubted(origin.doubt))
    author = _author(allocation, desired, origin)
    others = added - author.names if author.role == MEMBER else added
    if author.may_grant or not others:
        return None
    return _problem(
        allocation,
        "role_cannot_grant",
        f"{author.told}, and lets in {', '.join(sorted(others))} by access",
        "an owner or a maintainer of the project, or an operator, lets in others",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Author:
    """Who wrote a document of a project: the Users of that name, and what they are there."""

    names: frozenset[str]
    may_grant: bool
    role: str
    told: str


def _author(resource: Resource, desired: Desired, origin: Origin) -> _Author:
    names = _authors(desired, origin)
    project = desired.get("project", resource.ref.project)
    roles = {m.user: str(m.role) for m in project.spec.members} if project else {}
    may = any(roles.get(name) in MAY_GRANT for name in names)
    who = min(names, default="")
    what = f"{who} is {roles[who]} of" if who in roles else f"{who} is no member of"
    return _Author(
        names=names,
        may_grant=not names or may or is_operator(origin, desired),
        role=roles.get(who, ""),
        told=f"{what} project {resource.ref.project}",
    )


def _authors(desired: Desired, origin: Origin) -> frozenset[str]:
    """The Users who go by the name of who wrote it last."""
    emails, logins = _people(desired)
    return emails.get(origin.email, NOBODY) if origin.commit else logins.get(origin.author, NOBODY)


@once
def _people(desired: Desired) -> tuple[Mapping[str, frozenset[str]], Mapping[str, frozenset[str]]]:
    """Users by each of their addresses, and by each of their logins of this machine."""
    emails: dict[str, set[str]] = {}
    logins: dict[str, set[str]] = {}
    for user in desired.of("user"):
        for email in user.spec.emails:
            emails.setdefault(email, set()).add(user.ref.name)
        for login in user.spec.os_logins:
            logins.setdefault(login, set()).add(user.ref.name)
    return (
        {email: frozenset(names) for email, names in emails.items()},
        {login: frozenset(names) for login, names in logins.items()},
    )


def _grant_expired(giving: Giving) -> Problem | None:
    """An old one stays as it is, and opens nothing; a new one was never meant so."""
    spec = giving.grant.spec
    if not giving.is_new or in_force(giving.grant, giving.now):
        return None
    message = f"its time was over on {spec.expires_at}, before it was given"
    return _problem(giving.grant, "grant_expired", message, "state a time to come, or remove it")


def _grant_too_long(giving: Giving) -> Problem | None:
    end = giving.grant.spec.expires_at
    moment = parse_moment(end)
    policy = giving.desired.get("policy", "fleet")
    days = policy.spec.grant.max_days if policy else DEFAULT_MAX_DAYS
    if end == OPEN_ENDED and policy and not policy.spec.grant.may_be_open_ended:
        message = "the Policy allows no grant without an end"
        return _problem(giving.grant, "grant_too_long", message, f"at most {days} days ahead")
    if end == OPEN_ENDED or moment is None or moment <= giving.now + timedelta(days=days):
        return None
    message = f"it would last until {end}, more than {days} days from now"
    return _problem(giving.grant, "grant_too_long", message, f"state a time within {days} days")


RULES: tuple[Callable[[Giving], Problem | None], ...] = (
    _role_cannot_grant,
    _grant_expired,
    _grant_too_long,
)


def _problem(grant: Resource, code: str, message: str, hint: str) -> Problem:
    return Problem(code=code, message=message, hint=hint, source=grant.source(), ref=str(grant.ref))
