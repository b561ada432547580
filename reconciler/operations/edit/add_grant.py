"""`grant add`: a Grant for one member on one allocation, by the form of grants."""

from __future__ import annotations

from types import MappingProxyType

from reconciler.model.problem import refuse
from reconciler.model.records import dataclass
from reconciler.operations.edit.contract import WRITE, EditWish
from reconciler.operations.fleet import Fleet
from reconciler.operations.new.answers import from_options
from reconciler.operations.new.contract import NAME, PROJECT
from reconciler.operations.new.forms.grant import FORM
from reconciler.operations.new.new import NewSpec, prepare, scene_of, write
from reconciler.operations.references import ref_of, unknown

CALLED = MappingProxyType({"user": "USER", "allocation": "ALLOCATION", NAME: "--name"})
"""What its options are called here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantWish:
    """`allocation` is a ref; without a `name` the usual one, without a `key` all of theirs."""

    user: str
    allocation: str
    expires: str
    reason: str
    key: tuple[str, ...] = ()
    name: str = ""


def add_grant(fleet: Fleet, wish: GrantWish, how: EditWish = WRITE) -> NewSpec:
    """Write the Grant into a new file. Raises ProblemError, and then nothing is written."""
    scene, ref = scene_of(fleet), ref_of(wish.allocation)
    known = tuple(one.ref for one in scene.desired.of("allocation"))
    if ref not in known:
        raise unknown(ref, "no allocation in the specs", known)
    if not wish.user:
        raise refuse("usage", "no user is named", "gpuaas grant add USER ALLOCATION")
    given = {
        PROJECT: (ref.project,),
        "allocation": (ref.name,),
        "user": (wish.user,),
        "expires": (wish.expires,),
        "reason": (wish.reason,),
        "key": wish.key,
        NAME: (wish.name,),
    }
    made = prepare(FORM, scene, from_options(FORM, scene, given, may_ask=False, called=CALLED))
    return write(fleet, made, commit=how.commit) if how.write or how.commit else made
