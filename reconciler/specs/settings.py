"""gpuaas.yaml to Settings: read, validated and typed like a spec."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_network
from pathlib import Path

from reconciler.model.codec import decode
from reconciler.model.formats import (
    why_no_index,
    why_no_jump,
    why_no_loopback,
    why_no_message,
    why_no_name,
    why_no_replica,
    why_no_repository,
    why_no_revision,
)
from reconciler.model.problem import Problem, ProblemError, Source, in_order
from reconciler.model.settings import NotificationSettings, Settings, SourceSettings
from reconciler.specs.read.check_file import secrets_of
from reconciler.specs.read.library import SETTINGS_FILE, has_own_root, read_settings
from reconciler.specs.read.text import with_text
from reconciler.specs.read.validation import check_document, validator_of
from reconciler.specs.read.yaml_reader import read_documents


def load_settings(folder: Path, schema: str) -> Settings:
    """The settings of the fleet in `folder`; raises ProblemError with everything wrong in them."""
    folder = folder.resolve()
    return parse_settings(folder, read_settings(folder), schema)


def parse_settings(folder: Path, content: bytes, schema: str) -> Settings:
    """The settings that `content`, the text of gpuaas.yaml in `folder`, states."""
    parsed = read_documents(SETTINGS_FILE, content)
    validator = validator_of(schema)
    problems = list(parsed.problems)
    for located in parsed.documents:
        secrets = tuple(secrets_of(located))
        problems += secrets
        problems += check_document(located, validator, (*parsed.problems, *secrets))
    if len(parsed.documents) != 1 and not any(problem.is_error for problem in problems):
        problems = [_settings_problem("it must hold exactly one document")]
    if problems:
        raise ProblemError(in_order(with_text(problems, content)))
    (located,) = parsed.documents
    settings = decode(Settings, {**located.document.value, "folder": str(folder)})
    problems = [
        _settings_problem(message).at(located.source(path)) for path, message in _unsound(settings)
    ]
    if problems:
        raise ProblemError(with_text(problems, content))
    return settings


def _unsound(settings: Settings) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """What no schema can tell: where it stands, and why."""
    if not has_own_root(settings):
        yield ("specRoot",), "specRoot leads out of the fleet's folder"
    for at, network in enumerate(settings.network.closed):
        try:
            ip_network(network, strict=False)
        except ValueError:
            yield ("network", "closed", at), f"{network} is no address and no network"
    if jump := settings.publish.proxy_jump:
        yield from _told(("publish", "proxyJump"), why_no_jump(jump))
    if suffix := settings.publish.ssh_host_suffix:
        yield from _told(("publish", "sshHostSuffix"), why_no_name(suffix))
    if url := settings.replica.url:
        yield from _told(("replica", "url"), why_no_replica(url))
    yield from _unsound_source(settings.loop.source)
    if listen := settings.loop.metrics.listen:
        yield from _told(("loop", "metrics", "listen"), why_no_loopback(listen))
    yield from _unsound_notifications(settings.notifications)
    for name, index in settings.index.items():
        yield from _told(("index", name), why_no_index(index))


def _unsound_source(source: SourceSettings) -> Iterator[tuple[tuple[str | int, ...], str]]:
    place = ("loop", "source")
    if source.url:
        yield from _told((*place, "url"), why_no_repository(source.url))
    for word, name in (("branch", source.branch), ("tag", source.tag)):
        if name:
            yield from _told((*place, word), why_no_revision(name))
    if source.branch and source.tag:
        yield (*place, "tag"), "it is a branch or a tag, and not both"
    if ".." in source.path.split("/") or source.path.startswith("/"):
        yield (*place, "path"), "path leads out of the repository"


def _unsound_notifications(
    stated: tuple[NotificationSettings, ...],
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    for at, one in enumerate(stated):
        place: tuple[str | int, ...] = ("notifications", at)
        if bool(one.command) == (one.webhook is not None):
            yield place, f"{one.name} has either command or webhook"
        if one.command and not one.command[0].startswith("/"):
            yield (*place, "command", 0), f"{one.command[0]} is no absolute path of a program"
        hook = one.webhook
        if hook and bool(hook.url_file) == bool(hook.url_variable):
            yield (*place, "webhook"), f"{one.name} has either urlFile or urlVariable"
        yield from _told((*place, "template"), why_no_message(one.template))


def _told(path: tuple[str | int, ...], why: str) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if why:
        yield path, why


def _settings_problem(message: str) -> Problem:
    return Problem(
        code="settings_invalid",
        message=f"{SETTINGS_FILE}: {message}",
        hint="see what may stand there: gpuaas schema settings",
        source=Source(file=SETTINGS_FILE, line=1, column=1),
    )
