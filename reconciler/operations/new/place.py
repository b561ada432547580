"""The place of a new document: a file of its own, beside those that are like it."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator

from reconciler.model.problem import refuse
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.ownership import may_stand
from reconciler.operations.new.contract import Form

_WILD = re.compile(r"[*?]")


def place_of(desired: Desired, form: Form, ref: Ref) -> str:
    """The name of a file that is not there yet, in which such a document may stand.

    Raises ProblemError `document_outside_ownership` where no folder is known that may have it.
    """
    settings = desired.settings
    for folder in dict.fromkeys(_folders(desired, form, ref)):
        for base in (ref.name, f"{ref.kind}-{ref.name}"):
            name = f"{folder}/{base}.yaml"
            there = os.path.lexists(os.path.join(settings.folder, name))
            if not there and may_stand(settings, ref, name):
                return name
    raise refuse(
        "document_outside_ownership",
        f"no folder is known where {ref} may stand and has no file yet",
        "name one: --file FILE; which may hold it says `ownership` in gpuaas.yaml",
    )


def _folders(desired: Desired, form: Form, ref: Ref) -> Iterator[str]:
    """Where the like of it stands, then where its project does, then where rules and use put it."""
    root = desired.settings.spec_root.rstrip("/")
    alike = Counter(
        os.path.dirname(one.file)
        for one in desired.of(ref.kind)
        if one.ref.project == ref.project and one.file.startswith(f"{root}/")
    )
    if not form.apart:
        yield from sorted(alike, key=lambda folder: (-alike[folder], folder))
    project = desired.get("project", ref.project)
    if project is not None and project.file.startswith(f"{root}/"):
        yield os.path.dirname(project.file)
    for rule in desired.settings.ownership:
        fixed = _WILD.split(rule.path)[0].rpartition("/")[0].strip("/")
        yield f"{root}/{fixed}" if fixed else root
    yield f"{root}/{form.folder.format(project=ref.project, name=ref.name)}"
