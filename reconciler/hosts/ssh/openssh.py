"""The OpenSSH configuration that reaches an allocation: a file, or one line that needs none.

Either way the pinned host keys are the only ones believed, whatever the user's own settings say;
the user's identities and agent stay as they are. Everything written here is plain by `unsound`.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
from collections.abc import Iterable, Mapping, Sequence
from typing import NoReturn

from reconciler.hosts.program_output import output_of
from reconciler.model.host.endpoint import Endpoint, unsound
from reconciler.model.problem import ProblemError, refuse

PROGRAM = {"RemoteCommand": "none", "RequestTTY": "no", "PermitLocalCommand": "no"}
"""Of a connection that no person types into, whatever they have set for those that they do."""

MAX_ANSWER = 64 * 1024
"""More than a program there has to say, with what a `.bashrc` may print before it."""

UNQUOTABLE = re.compile(r'[\x00-\x1f\x7f"\\]|\$\{')
"""What no quoting keeps whole in a path of an ssh_config."""


def ssh_config(endpoints: Iterable[Endpoint], known_hosts: str = "") -> str:
    """A block per endpoint. The pins stand in the file `known_hosts`, or else in the block itself.

    Raises ProblemError `publish_failed` for a path that no ssh_config can name.
    """
    return "\n".join(_block(_plain(one), _quoted(known_hosts)) for one in endpoints)


def known_hosts(endpoints: Iterable[Endpoint]) -> str:
    """Pins by the name of the node, so that addresses and ports do not matter."""
    lines = {pin for one in endpoints for pin in _pins(_plain(one))}
    return "".join(f"{line}\n" for line in sorted(lines))


def login_command(endpoint: Endpoint, words: Sequence[str] = ()) -> tuple[str, ...]:
    """A whole command line of ssh; `words` are for the host's shell, as ssh itself takes them."""
    return _command(_plain(endpoint), {"RemoteCommand": "none"} if words else {}, words)


def program_command(endpoint: Endpoint, words: Sequence[str]) -> tuple[str, ...]:
    """The same for a program over there whose answer is read: nothing else runs or is shown."""
    return _command(_plain(endpoint), PROGRAM, words)


def _command(one: Endpoint, more: Mapping[str, str], words: Sequence[str]) -> tuple[str, ...]:
    told = {**_strict(one), **_own_pins(one), **more}
    options = [part for key, value in told.items() for part in ("-o", f"{key}={value}")]
    jump = ("-J", one.jump) if one.jump else ()
    place = ("-p", str(one.port), "-l", one.login, "--", one.address)
    return ("ssh", *options, *jump, *place, *words)


def forward_command(endpoint: Endpoint, port: int, socket: str) -> tuple[str, ...]:
    """A line of ssh that only forwards: `port` of our own loopback to a Unix socket over there."""
    # A kept connection of theirs would forward in its own time, and outlive this line.
    own = {**PROGRAM, "ControlMaster": "no", "ControlPath": "none"}
    program, *rest = _command(_plain(endpoint), own, ())
    there = ("-N", "-o", "ExitOnForwardFailure=yes", "-L", f"127.0.0.1:{port}:{socket}")
    return (program, *there, *rest)


def answer_of(command: Sequence[str]) -> str:
    """What such a line prints; what it says otherwise goes to the person.

    Who may be asked for a passphrase is waited for as long as they wait themselves. Raises
    ProblemError `ssh_missing` if there is no ssh, `ssh_failed` where it fails or does not end.
    """
    try:
        told = output_of(command, MAX_ANSWER)
    except OSError as error:
        raise _missing(command[0], error) from error
    if not told.is_whole:
        hint = "an allocation answers in two lines: what do its startup files print?"
        raise refuse("ssh_failed", f"more than {MAX_ANSWER >> 10} KiB of answer", hint)
    if told.code != 0:
        raise refuse("ssh_failed", f"ssh ended with {told.code}", "what it said stands above")
    return told.text


def plain_command(endpoint: Endpoint) -> str:
    """The short line for people, without pins: their own ssh asks about a key it does not know."""
    one = _plain(endpoint)
    port = () if one.port == 22 else ("-p", str(one.port))
    jump = ("-J", one.jump) if one.jump else ()
    return shlex.join(("ssh", *jump, *port, f"{one.login}@{one.address}"))


def become(command: Sequence[str]) -> NoReturn:
    """This process goes on as `command`. Raises ProblemError `ssh_missing` if there is no ssh."""
    # Python ignores it, and so would ssh: it is to end when nobody reads what it says.
    before = signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        os.execvp(command[0], list(command))
    except OSError as error:
        signal.signal(signal.SIGPIPE, before)
        raise _missing(command[0], error) from error


def _missing(program: str, error: OSError) -> ProblemError:
    hint = "install OpenSSH's client (Debian: openssh-client)"
    return refuse("ssh_missing", f"{program}: {error.strerror}", hint)


def _block(one: Endpoint, known_hosts: str) -> str:
    names = dict.fromkeys((one.host, one.short_host))
    told = {
        "HostName": one.address,
        "Port": str(one.port),
        "User": one.login,
        **_strict(one),
        **({"UserKnownHostsFile": known_hosts} if known_hosts else _own_pins(one)),
        "GlobalKnownHostsFile": "/dev/null",
        **({"ProxyJump": one.jump} if one.jump else {}),
    }
    lines = [f"Host {' '.join(names)}", *(f"    {key} {value}" for key, value in told.items())]
    return "".join(f"{line}\n" for line in lines)


def _strict(one: Endpoint) -> dict[str, str]:
    return {
        "HostKeyAlias": one.node,
        "StrictHostKeyChecking": "yes",
        "UpdateHostKeys": "no",
        "VerifyHostKeyDNS": "no",
        "NoHostAuthenticationForLocalhost": "no",
    }


def _own_pins(one: Endpoint) -> dict[str, str]:
    """Pins without a file: ssh asks a program that all systems have to say them."""
    pins = " ".join(f'"{pin}"' for pin in _pins(one))
    return {
        "UserKnownHostsFile": "/dev/null",
        "GlobalKnownHostsFile": "/dev/null",
        "KnownHostsCommand": rf'/usr/bin/printf "%%s\n" {pins}',
    }


def _pins(one: Endpoint) -> list[str]:
    return [f"{one.node} {key}" for key in one.host_keys]


def _plain(endpoint: Endpoint) -> Endpoint:
    """The endpoint, if nothing in it can be taken for more than it is."""
    if field := unsound(endpoint):
        raise refuse(
            "endpoint_unsound",
            f"{endpoint.ref}: {field} is not of the form that it must have",
            "nothing is told to ssh; ask an operator to look at the node's spec",
        )
    return endpoint


def _quoted(path: str) -> str:
    if not path:
        return ""
    if UNQUOTABLE.search(path):
        raise refuse(
            "publish_failed",
            f"no ssh_config can name a file below {path!r}",
            "choose another publish.dir in gpuaas.yaml",
        )
    return f'"{path.replace("%", "%%")}"'
