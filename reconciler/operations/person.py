"""The person who acts: one known User, or an operator, and the reason that they give."""

from __future__ import annotations

from reconciler.kinds.user import USERS, UserState
from reconciler.model.problem import refuse
from reconciler.model.spec.desired import Desired
from reconciler.operations.fleet import Fleet
from reconciler.planner.access.suspensions import scopes_at
from reconciler.specs.git import git
from reconciler.store.snapshot import read_world

LONGEST = 256
"""Of a reason, as the schema of the Policy has it."""


def person(fleet: Fleet, desired: Desired, acting: str) -> str:
    """The User who is acting, by their login here or else by the e-mail they commit with.

    Raises ProblemError `person_unknown`, or `operator_only` for one who is shut out.
    """
    name = _person(fleet, desired, acting)
    _insist_on_active(fleet, desired, name)
    return name


def operator(fleet: Fleet, desired: Desired, acting: str = "approves") -> str:
    """The same, for an operator. `acting` is what only operators do."""
    name = _person(fleet, desired, acting)
    operators = desired.settings.operators
    if name not in operators:
        message = f"{name} ({_who(fleet)}) is no operator, and only an operator {acting}"
        raise refuse("operator_only", message, f"operators (gpuaas.yaml): {', '.join(operators)}")
    _insist_on_active(fleet, desired, name)
    return name


def _who(fleet: Fleet) -> str:
    email = git.author_email(fleet.settings)
    return f"OS login {fleet.actor.name}" + (f", git e-mail {email}" if email else "")


def _person(fleet: Fleet, desired: Desired, acting: str) -> str:
    login, email = fleet.actor.name, git.author_email(fleet.settings)
    users = tuple(USERS.of(desired))
    by_login = {user.ref.name for user in users if login in user.spec.os_logins}
    by_email = {user.ref.name for user in users if email in user.spec.emails}
    people = by_login & by_email or by_login | by_email
    if len(people) != 1:
        found = f"is both {' and '.join(sorted(people))}" if people else "is nobody in the specs"
        raise refuse(
            "person_unknown",
            f"who {acting} must be one known person: {_who(fleet)} {found}",
            "put the login into osLogins of a User, or set git's user.email to one of its emails",
        )
    (name,) = people
    return name


def _insist_on_active(fleet: Fleet, desired: Desired, name: str) -> None:
    user = USERS.get(desired, name)
    stated = user is not None and user.spec.state is UserState.SUSPENDED
    if stated or f"user/{name}" in _shut_out(fleet):
        raise refuse("operator_only", f"{name} is suspended", "another operator may do it")


def _shut_out(fleet: Fleet) -> frozenset[str]:
    """By a word that stands in no file: a fleet without a state has heard none."""
    if not fleet.database_file.exists():
        return frozenset()
    with fleet.reading() as database:
        return scopes_at(read_world(database).suspensions, fleet.now())


def insist_on_reason(reason: str) -> None:
    """Check a reason that is kept. Raises ProblemError `usage`."""
    if not reason.strip() or len(reason) > LONGEST or not reason.isprintable():
        raise refuse(
            "usage",
            f"a reason is one line of 1 to {LONGEST} characters",
            "say why: --reason TEXT",
        )
