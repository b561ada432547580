"""Authorship: which people wrote a document, and what their roles allow.

People are known by what was recorded of them as well as by what git says now: nobody sheds a role
by an error, or by a word, in a document about themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from reconciler.kinds.checks.once import once
from reconciler.kinds.project import PROJECTS
from reconciler.kinds.user import USERS, UserSpec
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import AuthorDoubt, Desired, Origin
from reconciler.model.state.world import World

MAY_GRANT = frozenset({"owner", "maintainer"})
NOBODY: frozenset[str] = frozenset()

Names = Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Author:
    """Who wrote a document of a project: the Users of that name, and their roles there.

    An author whom no User names can be anybody, as git believes whatever it is told: there the
    ownership of paths is the boundary, and the plan shows the name.
    """

    names: frozenset[str]
    may_grant: bool
    role: str
    told: str


def author_in(project: str, desired: Desired, world: World, origin: Origin) -> Author:
    names = authors(desired, world, origin)
    out = {name: why for name in names if (why := _shut_out(name, desired, world))}
    members = _members(project, desired, world)
    roles = {name: members[name] for name in names if name in members and name not in out}
    may = any(role in MAY_GRANT for role in roles.values())
    who = min(names - out.keys() or names, default="")
    what = out.get(who) or f"{roles.get(who, 'no member')} of project {project}"
    return Author(
        names=names,
        may_grant=not names or may or is_operator(origin, desired, world),
        role=roles.get(who, ""),
        told=f"{who} is {what}",
    )


def _members(project: str, desired: Desired, world: World) -> Mapping[str, str]:
    """Roles by user, as recorded where the project's document cannot be acted on."""
    ref = Ref("project", "", project)
    found = desired.resources.get(ref) or world.recorded.get(ref)
    return {one.user: one.role for one in PROJECTS.spec(found).members} if found else {}


def is_operator(origin: Origin, desired: Desired, world: World) -> bool:
    """Whether the one who wrote it last is an operator; someone unknown is none."""
    if origin.doubt is not None:
        return False
    names = authors(desired, world, origin).intersection(desired.settings.operators)
    return any(not _shut_out(name, desired, world) for name in names)


def authors(desired: Desired, world: World, origin: Origin) -> frozenset[str]:
    """The Users who go by the name of who wrote it last.

    Whose it was recorded to be it is, by the name that they have now; who claims it beside them
    gets nothing by that. Nor does who is suspended, of what nobody is recorded for.
    """
    recorded = _look_up(_recorded_people(world), origin)
    if recorded:
        renamed = _renamed(desired)
        return frozenset(renamed.get(name, name) for name in recorded)
    claiming = _look_up(_desired_people(desired), origin)
    active = frozenset(name for name in claiming if not _shut_out(name, desired, world))
    return active or claiming


def _look_up(people: tuple[Names, Names], origin: Origin) -> frozenset[str]:
    emails, logins = people
    if origin.commit:
        return emails.get(origin.email.lower(), NOBODY)
    return logins.get(origin.author, NOBODY)


def _shut_out(name: str, desired: Desired, world: World) -> str:
    """Why somebody may give nothing whatever role they have; empty if they may."""
    ref = Ref("user", "", name)
    user, recorded = USERS.at(desired, ref), world.recorded.get(ref)
    if str(ref) in desired.suspended:
        return "suspended"
    if user is not None:
        return "" if user.spec.is_active else "suspended"
    if recorded is None or not _may_be_there(ref, recorded.file, desired):
        return "no longer in the specs"
    return "" if USERS.applied(recorded).is_active else "suspended"


def _may_be_there(ref: Ref, file: str, desired: Desired) -> bool:
    """Whether its document only cannot be acted on, or is away without a commit."""
    return (
        ref in desired.frozen
        or ref in desired.absent
        or desired.is_broken(file)
        or file in desired.misplaced.get(ref, ())
    )


@once
def _renamed(desired: Desired) -> Mapping[str, str]:
    """Users by their former names."""
    return {
        user.former_name: user.ref.name
        for user in USERS.of(desired)
        if user.former_name and Ref("user", "", user.former_name) not in desired.resources
    }


@once
def _desired_people(desired: Desired) -> tuple[Names, Names]:
    return _people((user.ref.name, user.spec) for user in USERS.of(desired))


@once
def _recorded_people(world: World) -> tuple[Names, Names]:
    return _people((one.ref.name, USERS.applied(one)) for one in USERS.recorded(world))


def _people(users: Iterable[tuple[str, UserSpec]]) -> tuple[Names, Names]:
    """Users by each of their addresses, and by each of their logins of this machine."""
    emails: dict[str, set[str]] = {}
    logins: dict[str, set[str]] = {}
    for name, spec in users:
        for email in spec.emails:
            emails.setdefault(email.lower(), set()).add(name)
        for login in spec.os_logins:
            logins.setdefault(login, set()).add(name)
    return _frozen(emails), _frozen(logins)


def _frozen(found: Mapping[str, set[str]]) -> Names:
    return {key: frozenset(names) for key, names in found.items()}


def doubted(doubt: AuthorDoubt) -> tuple[str, str]:
    """Why nobody knows by which commit something is so, and what helps."""
    return DOUBTS[doubt]


DOUBTS: Mapping[AuthorDoubt, tuple[str, str]] = {
    AuthorDoubt.SHALLOW: (
        "by whom this is, is unknown: it lies beyond the end of this shallow clone",
        "git fetch --unshallow",
    ),
    AuthorDoubt.UNCLEAR: (
        "by whom this is, is unknown: no commit says plainly who gave it its value",
        "take it out in one commit, and write it into a file of its own in the next",
    ),
    AuthorDoubt.SILENT: (
        "by whom this is, is unknown: git does not say",
        "make `git log` work in this folder",
    ),
}
