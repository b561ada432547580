"""`node bootstrap`: the commands that let gpuaas log in to a bare host; only printed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from reconciler import shipped
from reconciler.kinds.access.ssh_key import SshKey, parse_public_key
from reconciler.kinds.node.spec import CONTROL_LOGIN
from reconciler.model.problem import ProblemError, refuse
from reconciler.operations.fleet import Fleet
from reconciler.operations.observe import identity_file

END = "GPUAAS"
LOGIN = re.compile(r"[a-z_][a-z0-9_-]{0,31}")


def bootstrap(fleet: Fleet, login: str = "", key: Path | None = None) -> str:
    """Shell for a root shell of a Debian or Ubuntu host; run twice, it changes nothing more.

    It is one here-document, so that a terminal takes it whole before any of it runs. Raises
    ProblemError `settings_invalid` or `key_invalid` without a public key to let in.
    """
    usual = fleet.settings.ssh.user or CONTROL_LOGIN
    login = login or usual
    if not LOGIN.fullmatch(login):
        raise refuse("usage", f"{login!r} is no login of Linux", "as in gpuaas")
    user = "" if login == usual else f" --user {login}"
    words = {"login": login, "key": _public_key(fleet, key), "user": user}
    lines = [
        f"sh -eu <<'{END}'",
        "# gpuaas: lets the control machine log in here and become root. May be run again.",
        *(f"{name}={shlex.quote(text)}" for name, text in words.items()),
        *shipped.templates()["bootstrap/host.sh"].splitlines(),
        END,
    ]
    return "\n".join(lines) + "\n"


def _public_key(fleet: Fleet, stated: Path | None) -> str:
    """One line for authorized_keys, made anew from what was read."""
    file = stated or _own_key(fleet)
    public = file if file.suffix == ".pub" else file.parent / f"{file.name}.pub"
    try:
        text = public.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise refuse(
            "key_invalid",
            f"there is no public key in {public}: {error}",
            f"write it: ssh-keygen -y -f {file} > {public}",
        ) from error
    key = parse_public_key(text)
    if not isinstance(key, SshKey):
        raise ProblemError((key,))
    return " ".join(filter(None, (key.type, key.blob, key.comment)))


def _own_key(fleet: Fleet) -> Path:
    identity = identity_file(fleet)
    if not identity:
        raise refuse(
            "settings_invalid",
            "gpuaas.yaml names no key to log in to hosts with",
            "set ssh.identityFile in gpuaas.yaml, or give a public key: --key FILE",
        )
    return Path(identity)
