"""Connections that sshd's configuration distinguishes: one of each sort, to be tested.

A Match line may give other settings to an address, a port, a name or a group, wherever it stands.
What these lines name is read here; what holds then, only sshd itself says.
"""

from __future__ import annotations

import glob
import ipaddress
import itertools
import os
import re
from typing import Callable, Iterable, Iterator, NamedTuple

from .probes import ProbeError, printable

CONFIG = "etc/ssh/sshd_config"
MAX_INCLUDED, MAX_TRIED, MAX_SORTS = 200, 50000, 64
LINE = re.compile(r"\s*(\w+)\s*[\s=]\s*(.*)")
WORD = re.compile(r'"([^"]*)"|([^\s"#]\S*)|#.*')

ASKED = frozenset({"user", "group", "host", "address", "localaddress", "localport", "rdomain"})
NEVER_OF_A_TENANT = frozenset({"all", "invalid-user"})
"""Words of a Match line that stand alone; a tenant's name is always one that there is."""

OF_SSHD = frozenset({"version"})
OUTSIDE = ("192.0.2.77", "2001:db8::77")
"""Addresses for documents: nobody's, so no list names them but by a net that names everybody."""


class Criterion(NamedTuple):
    """One condition of a Match line: its word, and the patterns of its list."""

    word: str
    patterns: tuple[str, ...]


class Connection(NamedTuple):
    """As `sshd -T -C` is told of it, with everything that a Match line may ask for."""

    user: str
    host: str
    addr: str
    laddr: str
    lport: str
    rdomain: str = ""

    @property
    def told(self) -> str:
        return ",".join(f"{name}={value}" for name, value in self._asdict().items())

    def apart(self, other: Connection) -> str:
        """What of it is otherwise, in words: `addr:10.0.0.1`."""
        its = other._asdict()
        mine = (f"{name}:{value}" for name, value in self._asdict().items() if value != its[name])
        return printable("+".join(mine))


def criteria(root: str, config: str = CONFIG) -> list[Criterion]:
    """Of every Match line of the configuration and all that it includes. Raises ProbeError."""
    return list(_criteria(root, [config], [0]))


def sorts(
    base: Connection,
    named: Iterable[Criterion],
    users: Iterable[str],
    groups_of: Callable[[str], Iterable[str]],
    ports: Iterable[str],
) -> list[Connection]:
    """`base`, and one connection more for each way in which conditions can hold together.

    `users` are accounts whom the settings concern. Raises ProbeError where there are too many.
    """
    named = sorted(set(named))
    values = {word: _values(word, named) for word in ASKED}
    addresses = [base.addr, *OUTSIDE, *values["address"]]
    wide = (
        [base.user, *users],
        [base.host, "outside.invalid", *values["host"]],
        addresses,
        [base.laddr, *values["localaddress"]],
        [base.lport, *ports, *values["localport"]],
        [base.rdomain, *values["rdomain"]],
    )
    unique = [list(dict.fromkeys(one)) for one in wide]
    number = 1
    for one in unique:
        number *= len(one)
    groups = {user: tuple(groups_of(user)) for user in unique[0]}
    found: dict[tuple[bool, ...], Connection] = {}
    if number > MAX_TRIED:
        raise ProbeError(f"sshd's files tell {number} sorts of connections apart, too many to ask")
    for each in (base, *(Connection(*parts) for parts in itertools.product(*unique))):
        held = tuple(holds(criterion, each, groups[each.user]) for criterion in named)
        found.setdefault(held, each)
    if len(found) > MAX_SORTS:
        raise ProbeError(f"sshd's files tell {len(found)} sorts of connections apart, too many")
    return list(found.values())


def holds(criterion: Criterion, one: Connection, groups: Iterable[str]) -> bool:
    """As sshd judges it; a list in which a negated pattern matches does not match."""
    word, patterns = criterion
    if word == "group":
        judged = [in_list(group, patterns) for group in groups]
        return False if None in judged else True in judged
    if word in ("address", "localaddress"):
        return address_in_list(one.addr if word == "address" else one.laddr, patterns) is True
    if word == "localport":
        return one.lport in patterns
    text = {"user": one.user, "host": one.host.lower(), "rdomain": one.rdomain}[word]
    patterns = tuple(p.lower() for p in patterns) if word == "host" else patterns
    return in_list(text, patterns) is True


def in_list(text: str, patterns: Iterable[str]) -> bool | None:
    """None where a negated pattern matches."""
    return _listed(patterns, lambda pattern: bool(_regex(pattern).fullmatch(text)))


def address_in_list(address: str, patterns: Iterable[str]) -> bool | None:
    """Nets by their length; all else by its text."""
    return _listed(patterns, lambda pattern: _is_in(address, pattern))


def _listed(patterns: Iterable[str], matches: Callable[[str], bool]) -> bool | None:
    found = False
    for pattern in patterns:
        if pattern.startswith("!"):
            if matches(pattern[1:]):
                return None
        else:
            found = found or matches(pattern)
    return found


def _is_in(address: str, pattern: str) -> bool:
    try:
        where = ipaddress.ip_address(address)
    except ValueError:
        return bool(_regex(pattern).fullmatch(address))
    try:
        net = ipaddress.ip_network(pattern, strict=False)
    except ValueError:
        return bool(_regex(pattern.lower()).fullmatch(address.lower()))
    return where.version == net.version and where in net


def _regex(pattern: str) -> re.Pattern[str]:
    signs = {"*": ".*", "?": "."}
    return re.compile("".join(signs.get(char) or re.escape(char) for char in pattern), re.DOTALL)


def _criteria(root: str, names: list[str], seen: list[int]) -> Iterator[Criterion]:
    for name in names:
        seen[0] += 1
        if seen[0] > MAX_INCLUDED:
            raise ProbeError(f"sshd's files include more than {MAX_INCLUDED} others")
        with open(os.path.join(root, name), encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().splitlines()
        for line in lines:
            word, words = _words(line)
            if word == "match":
                yield from _conditions(words)
            elif word == "include":
                for pattern in words:
                    place = os.path.join("etc/ssh", pattern).lstrip("/")
                    found = sorted(glob.glob(os.path.join(glob.escape(root), place)))
                    inside = [os.path.relpath(path, root) for path in found]
                    yield from _criteria(root, inside, seen)


def _words(line: str) -> tuple[str, list[str]]:
    """The keyword, and its arguments without quotes or what is remarked behind them."""
    match = LINE.match(line)
    if match is None or line.lstrip().startswith("#"):
        return "", []
    found = []
    for one in WORD.finditer(match.group(2)):
        if one.group(0).startswith("#"):
            break
        found.append(one.group(1) if one.group(1) is not None else one.group(2))
    return match.group(1).lower(), found


def _conditions(words: list[str]) -> Iterator[Criterion]:
    rest = list(words)
    while rest:
        word, is_pair, value = rest.pop(0).partition("=")
        word = word.lower()
        if word in NEVER_OF_A_TENANT:
            continue
        if not is_pair:
            value = rest.pop(0) if rest else ""
        if word in ASKED:
            yield Criterion(word, tuple(filter(None, value.split(","))))
        elif word not in OF_SSHD:
            raise ProbeError(f"sshd's files match by {word}, which sshd cannot be asked about")


def _values(word: str, named: Iterable[Criterion]) -> list[str]:
    """A value for each pattern of these conditions that is one of those it means."""
    patterns = [p.lstrip("!") for one in named if one.word == word for p in one.patterns]
    if word in ("user", "group"):
        return []
    if word == "localport":
        return [port for port in patterns if port.isdigit()]
    make = _address_of if word in ("address", "localaddress") else _name_of
    return [make(pattern) for pattern in dict.fromkeys(patterns) if pattern.strip("*")]


def _name_of(pattern: str) -> str:
    return pattern.replace("*", "x").replace("?", "x").replace(",", "")


def _address_of(pattern: str) -> str:
    """The first of a net, or one that a pattern with `*` or `?` means."""
    try:
        net = ipaddress.ip_network(pattern, strict=False)
        return str(net[1] if net.num_addresses > 2 else net[0])
    except ValueError:
        pass
    plain = pattern.replace("?", "1")
    for star in ("1", "1.1", "1.1.1", ":1", "1:1", "1::1", ":", "::1"):
        for tail in ("", ".1", ".1.1", ".1.1.1"):
            text = plain.replace("*", star) + tail
            try:
                address = str(ipaddress.ip_address(text))
            except ValueError:
                continue
            if _regex(pattern.lower()).fullmatch(address):
                return address
    raise ProbeError(f"sshd's files match by the address {printable(pattern)}, which none has")
