"""PAM check: what PAM says of an account, asked as sshd asks it, without a login.

It is asked in a process of its own, since a module may change the one that asks, or never answer.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import json
import os
import select
import signal
import time
from contextlib import suppress
from typing import Iterable

from .probes import BUDGET, ProbeError, printable

SECONDS = 10.0
MAX_ANSWER, MAX_SAID = 1 << 16, 200
SUCCESS, NO_ANSWER = 0, 19
ITEM_TTY, ITEM_RHOST = 3, 4

Said = list[str]


class Message(ctypes.Structure):
    _fields_ = [("style", ctypes.c_int), ("text", ctypes.c_char_p)]


TALK = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_int,
    ctypes.POINTER(ctypes.POINTER(Message)),
    ctypes.c_void_p,
    ctypes.c_void_p,
)


class Conversation(ctypes.Structure):
    _fields_ = [("talk", TALK), ("data", ctypes.c_void_p)]


def admitted(logins: Iterable[str], service: str, came: str) -> dict[str, str]:
    """Login → why PAM would not let it in from there; '' where it would.

    Whom it has not told of in time is unknown.
    """
    until, found = time.monotonic() + BUDGET.left(SECONDS), {}
    for login in logins:
        found[login] = _asked(login, service, came, until)
    return found


def _asked(login: str, service: str, came: str, until: float) -> str:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            os.close(reader)
            os.write(writer, json.dumps(_why_not(login, service, came)).encode("ascii"))
        os._exit(0)
    os.close(writer)
    try:
        ready, _, _ = select.select([reader], [], [], max(0.0, until - time.monotonic()))
        answer = os.read(reader, MAX_ANSWER) if ready else b""
    finally:
        os.close(reader)
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    if not ready:
        return "unknown: PAM does not answer"
    try:
        return str(json.loads(answer))
    except ValueError:
        return "unknown: PAM ended whoever asked"


def _why_not(login: str, service: str, came: str) -> str:
    pam = _library()
    said: Said = []
    talk = TALK(lambda number, messages, answers, data: _listen(said, number, messages))
    handle = ctypes.c_void_p()
    conversation = Conversation(talk, None)
    code = pam.pam_start(
        service.encode(), login.encode(), ctypes.byref(conversation), ctypes.byref(handle)
    )
    if code == SUCCESS:
        pam.pam_set_item(handle, ITEM_TTY, b"ssh")
        pam.pam_set_item(handle, ITEM_RHOST, came.encode())
        code = pam.pam_acct_mgmt(handle, 0)
    if code == SUCCESS:
        return ""
    pam.pam_strerror.restype = ctypes.c_char_p
    why = pam.pam_strerror(handle, code).decode("utf-8", "replace")
    return printable(" ".join(" ".join((f"PAM: {why}", *said)).split()))[:MAX_SAID]


def _listen(said: Said, number: int, messages: "ctypes._Pointer[ctypes._Pointer[Message]]") -> int:
    """What is only told is kept; whatever is asked gets no answer: nobody is there to give one."""
    for at in range(number):
        text = messages[at].contents.text
        said.append((text or b"").decode("utf-8", "replace"))
    asks = any(messages[at].contents.style in (1, 2) for at in range(number))
    return NO_ANSWER if asks else SUCCESS


def _library() -> ctypes.CDLL:
    try:
        return ctypes.CDLL("libpam.so.0")
    except OSError as error:
        raise ProbeError(f"PAM cannot be asked: {error}") from error
