"""The form of a User: a person, by the addresses they commit with and their own public keys."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from reconciler.kinds.access.ssh_key import SshKey, parse_public_key
from reconciler.kinds.user import USERS, UserSpec
from reconciler.model.formats import why_no_email
from reconciler.model.ref import is_name
from reconciler.model.spec.resource import Resource
from reconciler.operations.new.answers import one_line
from reconciler.operations.new.choices import name_question
from reconciler.operations.new.contract import (
    Answers,
    Form,
    NoAnswer,
    Part,
    Scene,
    SpecDraft,
    SpecQuestion,
)
from reconciler.operations.new.text import compose

PERSON, ACCESS = "person", "access"
EMAIL = re.compile(r"[0-9A-Za-z.!#$%&'*+/=?^_`{|}~-]+@[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*")
LOGIN = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
PUBLIC = ".pub"
LONGEST_FILE = 16384
HEADING = (
    "A person. Access comes from allocations and grants; a key alone opens nothing. Each key"
    " with its meaning: gpuaas schema user"
)


def email(text: str, scene: Scene, answers: Answers) -> str:
    if not EMAIL.fullmatch(text) or (why_no_email(text)):
        raise NoAnswer(f"{text!r} is no e-mail address")
    _insist_on_free(scene, "email", text.lower())
    return text


def login(text: str, scene: Scene, answers: Answers) -> str:
    if not LOGIN.fullmatch(text):
        raise NoAnswer(f"{text!r} is no login of Linux")
    _insist_on_free(scene, "login", text)
    return text


def _insist_on_free(scene: Scene, what: str, word: str) -> None:
    for user in USERS.of(scene.desired):
        known = (
            [one.lower() for one in user.spec.emails] if what == "email" else user.spec.os_logins
        )
        if word in known:
            raise NoAnswer(f"{word} belongs to user {user.ref.name}")


def key(text: str, scene: Scene, answers: Answers) -> str:
    """`ID=KEY`, where KEY is a public key or a `.pub` file; what was read is never repeated."""
    name, equals, rest = text.partition("=")
    if not equals or not is_name(name):
        raise NoAnswer("write it as ID=KEY, as in laptop=~/.ssh/id_ed25519.pub")
    found = parse_public_key(_from_file(rest) if rest.endswith(PUBLIC) else rest)
    if not isinstance(found, SshKey):
        raise NoAnswer(f"{name}: {found.message}; {found.hint}")
    return f"{name}={' '.join(filter(None, (found.type, found.blob, found.comment)))}"


def _from_file(name: str) -> str:
    try:
        path = Path(name).expanduser()
        if not path.is_file():
            raise NoAnswer(f"there is no file {name}")
        with path.open(encoding="utf-8") as file:
            return file.read(LONGEST_FILE).strip()
    except (OSError, UnicodeDecodeError, RuntimeError) as error:
        raise NoAnswer(f"{name} cannot be read") from error


def draft(scene: Scene, answers: Answers) -> SpecDraft:
    return compose(FORM.ref(answers), HEADING, tuple(_parts(answers)))


def _parts(answers: Answers) -> Iterator[Part]:
    if label := answers.one("display-name"):
        yield Part(comment="What people call them.", entries={"displayName": label})
    yield Part(
        comment="The addresses that they commit with: by these git knows them.",
        entries={"emails": list(answers.all("email"))},
    )
    if logins := answers.all("os-login"):
        yield Part(
            comment="Their login on the control machine.", entries={"osLogins": list(logins)}
        )
    if given := answers.all("key"):
        entries = [
            {"id": name, "publicKey": text}
            for name, _, text in (one.partition("=") for one in given)
        ]
        yield Part(comment="Their own public keys, one entry each.", entries={"keys": entries})
    else:
        yield Part(
            comment="Their own public keys, one entry each. Without any they have no way in.\n"
            " keys:\n   - id: laptop\n     publicKey: ssh-ed25519 AAAA…"
        )


def facts(scene: Scene, answers: Answers, resource: Resource[UserSpec]) -> Mapping[str, str]:
    return {
        "opens": "nothing by itself: name them as a member of a project, then in access or a grant",
        "warning": "" if resource.spec.keys else "without a key of theirs there is no way in",
    }


FORM = Form(
    kind="user",
    about="A person, and their own public keys.",
    folder="people",
    questions=(
        name_question("user", PERSON),
        SpecQuestion(
            name="email",
            step=PERSON,
            asks="Addresses they commit with",
            help="Address that they commit with; may be repeated.",
            metavar="ADDRESS",
            required=True,
            many=True,
            read=email,
        ),
        SpecQuestion(
            name="display-name",
            step=PERSON,
            asks="What people call them",
            help="What people call them; their name if not stated.",
            metavar="TEXT",
            read=one_line(),
        ),
        SpecQuestion(
            name="os-login",
            step=PERSON,
            asks="Their login on the control machine, if any",
            help="Login of theirs on the control machine; may be repeated.",
            metavar="LOGIN",
            many=True,
            read=login,
        ),
        SpecQuestion(
            name="key",
            step=ACCESS,
            asks="A public key of theirs, as ID=KEY or ID=FILE.pub",
            help="Public key of theirs, as ID=KEY or ID=FILE.pub; may be repeated.",
            metavar="ID=KEY",
            many=True,
            key_ends="=",
            read=key,
        ),
    ),
    draft=draft,
    facts=facts,
)
