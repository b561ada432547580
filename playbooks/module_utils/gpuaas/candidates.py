"""Candidate files are checked by the host's own programs before they go live."""

from __future__ import annotations

import glob
import os
import re
import shutil
import tempfile
from typing import Mapping, Sequence
from xml.etree import ElementTree

from .pam import block_of
from .probes import ProbeError, call, failure

SSHD_CONFIG, SSHD_FOLDER = "/etc/ssh/sshd_config", "/etc/ssh/sshd_config.d"
INCLUDE = re.compile(r"^\s*include\s", re.IGNORECASE)
PAM_MODULE = re.compile(r"\b(pam_\w+\.so)\b")
PAM_FOLDERS = ("/usr/lib/*/security", "/lib/*/security", "/usr/lib/security", "/lib/security")


def check_sshd(files: Mapping[str, str]) -> str:
    """Its configuration as it would be with these files; as it is, without any."""
    with tempfile.TemporaryDirectory(prefix="gpuaas-") as folder:
        config = SSHD_CONFIG
        mine = {path: text for path, text in files.items() if path.startswith(SSHD_FOLDER + "/")}
        if mine:
            config = f"{folder}/sshd_config"
            if why := compose_sshd(mine, folder):
                return why
        try:
            done = call("sshd", "-t", "-f", config)
        except ProbeError as error:
            return str(error)
    return failure("sshd -t", done) if done.returncode else ""


def compose_sshd(files: Mapping[str, str], folder: str) -> str:
    """A copy of the configuration that reads these files; or why the real one would not."""
    inside = f"{folder}/sshd_config.d"
    shutil.copytree(SSHD_FOLDER, inside)
    for path, text in files.items():
        with open(f"{inside}/{os.path.basename(path)}", "w", encoding="utf-8") as file:
            file.write(text)
    with open(SSHD_CONFIG, encoding="utf-8", errors="surrogateescape") as file:
        lines = file.readlines()
    composed = [redirect(line, inside) if INCLUDE.match(line) else line for line in lines]
    if composed == lines:
        return f"{SSHD_CONFIG} does not include {SSHD_FOLDER}/*.conf"
    with open(f"{folder}/sshd_config", "w", encoding="utf-8", errors="surrogateescape") as file:
        file.writelines(composed)
    return ""


def redirect(line: str, inside: str) -> str:
    """An Include of sshd's folder as one of the copy; a relative path is one below /etc/ssh."""
    return re.sub(r"(\s\"?)(?:/etc/ssh/)?sshd_config\.d/", rf"\g<1>{inside}/", line)


def check_pam(files: Mapping[str, str]) -> str:
    """A stack that names a module which is not there lets nobody in; the others are not ours."""
    blocks = [block_of(text) for path, text in files.items() if path.startswith("/etc/pam.d/")]
    named = {name for block in blocks for name in PAM_MODULE.findall(block)}
    there = {os.path.basename(path) for at in PAM_FOLDERS for path in glob.glob(f"{at}/pam_*.so")}
    missing = sorted(named - there)
    return f"PAM has no {', '.join(missing)}" if missing else ""


def check_bus(files: Mapping[str, str]) -> str:
    """A policy that cannot be read takes the whole bus down."""
    for path, text in files.items():
        if path.startswith("/etc/dbus-1/"):
            try:
                ElementTree.fromstring(text)
            except ElementTree.ParseError as error:
                return f"{path}: {error}"
    return ""


def check_units(units: Sequence[str]) -> str:
    """What systemd says of these units, and of no others."""
    done = call("systemd-analyze", "verify", *units)
    said = [line for line in done.stderr.splitlines() if any(unit in line for unit in units)]
    return "; ".join(said)
