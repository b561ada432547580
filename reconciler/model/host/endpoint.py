"""Endpoints: where people reach an allocation, in a form that cannot be taken for options.

Much of an endpoint ends up in files and on command lines of OpenSSH, and it may come out of a file
that somebody else has published. So each text has a form in which it is plain, and `unsound` says
which one is not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from reconciler.model.records import dataclass
from reconciler.model.ref import NAME_PATTERN, Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """`host` is the name that users give to ssh; `host_keys` are all that may answer there.

    On a node that is a folder nobody logs in: `folder` says where to look, and there is no address.
    """

    ref: Ref
    node: str
    login: str
    host: str
    address: str = ""
    port: int = 22
    host_keys: tuple[str, ...] = ()
    jump: str = ""
    folder: str = ""

    @property
    def short_host(self) -> str:
        """`train-a.vision`, which works whatever follows it in `host`."""
        return short_host(self.ref)

    @property
    def short_ref(self) -> str:
        return f"{self.ref.project}/{self.ref.name}"


def short_host(ref: Ref) -> str:
    return f"{ref.name}.{ref.project}"


_ADDRESS = r"[0-9A-Za-z:]([0-9A-Za-z.:-]*[0-9A-Za-z:])?"
_LOGIN = r"[a-z_][a-z0-9_-]*"
_HOP = rf"({_LOGIN}@)?(\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z]([0-9A-Za-z.-]*[0-9A-Za-z])?)(:[0-9]{{1,5}})?"

PLAIN: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {
        "node": re.compile(NAME_PATTERN),
        "login": re.compile(_LOGIN),
        "host": re.compile(_ADDRESS),
        "address": re.compile(_ADDRESS),
        "host_keys": re.compile(
            r"(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)) [0-9A-Za-z+/]+={0,2}"
        ),
        "jump": re.compile(rf"{_HOP}(,{_HOP})*"),
    }
)
"""What each text of an endpoint may look like: the forms of the schemas, without exception."""

_LONGEST = 4096


def unsound(endpoint: Endpoint) -> str:
    """The first field of an endpoint that can be no such thing; '' if all of it is plain."""
    texts = {
        "node": (endpoint.node,),
        "login": (endpoint.login,),
        "host": (endpoint.host,),
        "address": () if endpoint.folder else (endpoint.address,),
        "host_keys": endpoint.host_keys,
        "jump": (endpoint.jump,) if endpoint.jump else (),
    }
    for name, values in texts.items():
        if not all(_is_plain(PLAIN[name], value) for value in values):
            return name
    if endpoint.ref.kind != "allocation":
        return "ref"
    if not f"{endpoint.host}.".startswith(f"{endpoint.short_host}."):
        # A name of somebody else's, and whoever took it over would end up here.
        return "host"
    if not isinstance(endpoint.folder, str) or not (endpoint.folder or endpoint.host_keys):
        return "host_keys"
    return "" if _is_port(endpoint.port) else "port"


def _is_plain(pattern: re.Pattern[str], value: object) -> bool:
    return (
        isinstance(value, str) and len(value) <= _LONGEST and pattern.fullmatch(value) is not None
    )


def _is_port(value: object) -> bool:
    return type(value) is int and 0 < value < 65536
