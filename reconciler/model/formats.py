"""Formats of texts with a meaning: hosts, jump hosts, indexes, mailboxes, replicas, PCI addresses.

Each function says why a text is none; empty if it is one. A schema has said by then which
characters may stand in it.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address
from string import Template

LABEL = re.compile(r"[0-9A-Za-z]([0-9A-Za-z-]{0,61}[0-9A-Za-z])?")
LOGIN = re.compile(r"[a-z_][a-z0-9_-]*")
PORT = re.compile(r"[1-9][0-9]{0,4}")
HOP = re.compile(r"((?P<login>[^@]*)@)?(\[(?P<inner>[^]]*)\]|(?P<host>[^]\[:]*))(:(?P<port>.*))?")
INDEX = re.compile(
    r"https?://([^/?#@]*@)?(\[(?P<inner>[^]]+)\]|(?P<host>[^]\[:/?#@]+))(:(?P<port>[^/?#]*))?([/?#].*)?"
)
SCP = re.compile(
    r"(?:[A-Za-z_][\w.-]*@)?(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*):(?!/?-)[^:\s].*", re.ASCII
)
REVISION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/+@-]{0,199}", re.ASCII)
SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")
CARD = re.compile(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def why_no_host(text: str) -> str:
    """A name or an address by which a host is reached."""
    try:
        if ":" in text:
            address: IPv4Address | IPv6Address = IPv6Address(text)
        elif text.rpartition(".")[2].isdigit():
            address = IPv4Address(text)
        else:
            return why_no_name(text)
    except ValueError:
        version = "6" if ":" in text else "4"
        return f"{text} is no IPv{version} address"
    if "%" in text:
        return f"{text} names a network card of one machine: give an address that any can reach"
    if address.is_unspecified or address.is_multicast:
        return f"{text} is no address of one host"
    return ""


def why_no_name(text: str) -> str:
    """A host name, as the domain name system takes it."""
    labels = text.split(".")
    if strange := next((one for one in labels if not LABEL.fullmatch(one)), None):
        return f"{text} is no host name: {strange} may not stand between dots"
    if "" in labels:
        return f"{text} is no host name: nothing stands between two dots, or at its end"
    return ""


def why_no_jump(text: str) -> str:
    """What ssh takes after -J: `user@host:port`, several with commas; IPv6 in brackets."""
    for hop in text.split(","):
        if why := _why_no_hop(hop):
            return why
    return ""


def _why_no_hop(hop: str) -> str:
    found = HOP.fullmatch(hop)
    if found is None:
        hint = ": ssh wants IPv6 addresses in brackets, user@[::1]:22" if hop.count(":") > 1 else ""
        return f"{hop!r} is no jump host{hint}"
    login, port = found["login"], found["port"]
    if login is not None and not LOGIN.fullmatch(login):
        return f"{hop!r} is no jump host: {login!r} is no login"
    if port is not None and not _is_port(port):
        return f"{hop!r} is no jump host: {port!r} is no port"
    if found["inner"] is not None:
        return why_no_host(found["inner"]) if ":" in found["inner"] else f"{hop!r} is no jump host"
    if hop == "none":
        return "none is no jump host to ssh but the lack of one: leave the field out"
    return why_no_host(found["host"])


def why_no_index(text: str) -> str:
    """Where wheels are: `https://host[:port]/…`, or a folder as `file:///…`."""
    if text.startswith("file:"):
        return "" if text.startswith("file:///") else f"{text} is no folder: write file:///path"
    found = INDEX.fullmatch(text)
    if found is None or (found["port"] is not None and not _is_port(found["port"])):
        return f"{text} is no address of an index"
    return why_no_host(found["inner"] or found["host"])


def why_no_repository(text: str) -> str:
    """Where git can be asked without a program that an address names: https, ssh, or a folder.

    An address that is an option or another transport's (`ext::`) would be a command (F-REC-09).
    """
    if text.startswith(("/", "file:///")):
        return ""
    scheme, mark, rest = text.partition("://")
    if mark:
        if scheme not in ("https", "ssh"):
            return (
                f"{text} is no repository that is fetched from: write https://, ssh:// or a folder"
            )
        place = rest.partition("/")[0]
        return _why_no_server(place) if place else f"{text} names no host"
    found = SCP.fullmatch(text)
    if found is None:
        return f"{text} is no repository: write https://…, ssh://…, user@host:path or /a/folder"
    return why_no_host(found["host"])


def why_no_revision(text: str) -> str:
    """A branch or a tag as git has them (git-check-ref-format), and never an option."""
    plain = REVISION.fullmatch(text) and not any(word in text for word in ("..", "//", "@{"))
    if plain and not text.endswith((".lock", ".", "/")) and "/." not in text:
        return ""
    return f"{text!r} is no name of a branch or tag"


def why_no_loopback(text: str) -> str:
    """An address of this machine alone, and a port, as `127.0.0.1:9469` or `[::1]:9469`."""
    host, _, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    try:
        inner = IPv6Address(host[1:-1]) if bracketed else IPv4Address(host)
    except ValueError:
        return f"{text} is no address with a port: write 127.0.0.1:9469 or [::1]:9469"
    if not inner.is_loopback:
        return f"{text} can be reached from elsewhere: only 127.0.0.0/8 and ::1 are listened on"
    return "" if _is_port(port) else f"{text} names no port from 1 to 65535"


MESSAGE_WORDS = frozenset({"text", "fleet", "event", "level", "about", "code", "state", "at"})


def why_no_message(text: str) -> str:
    """A template of a message: text in which only words stand that a message has."""
    template = Template(text)
    if not template.is_valid():
        return "a lone $ stands in it: write $$ for one"
    strange = sorted(set(template.get_identifiers()) - MESSAGE_WORDS)
    return f"a message has no ${strange[0]}" if strange else ""


def why_no_email(text: str) -> str:
    """A mailbox, as git writes it beside an author: any name at a host."""
    name, _, host = text.rpartition("@")
    if not name:
        return f"{text} is no e-mail address"
    why = why_no_name(host)
    return f"{text} is no e-mail address: {why}" if why else ""


def why_no_replica(text: str) -> str:
    """A folder, or an address with a scheme; of sftp:// the host is judged too."""
    scheme, mark, rest = text.partition("://")
    if not mark:
        return ""
    if not SCHEME.fullmatch(scheme):
        return f"{text} is no address: it begins with no scheme, as s3:// is one"
    if scheme == "file":
        return "" if rest.startswith("/") else f"{text} is no folder: write file:///path"
    place = rest.partition("/")[0]
    if not place:
        return f"{text} is no address: nothing stands after {scheme}://"
    return _why_no_server(place) if scheme == "sftp" else ""


def _why_no_server(place: str) -> str:
    found = HOP.fullmatch(place)
    if found is None or (found["port"] is not None and not _is_port(found["port"])):
        return f"{place} is no host with a port"
    return why_no_host(found["inner"] or found["host"] or "")


def why_no_card(text: str) -> str:
    """What is spelled like the UUID of a card must be one; shorter names are those of stand-ins."""
    if text.count("-") >= 4 and not CARD.fullmatch(text):
        return f"{text} is no UUID of a card, which is GPU-, then 8, 4, 4, 4 and 12 hex digits"
    return ""


def _is_port(text: str) -> bool:
    return PORT.fullmatch(text) is not None and int(text) < 65536
