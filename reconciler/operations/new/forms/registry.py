"""The forms, by the word of their kind; a new kind adds a module and a row."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from reconciler.operations.new.contract import Form
from reconciler.operations.new.forms import (
    allocation,
    app,
    grant,
    node,
    project,
    storage,
    user,
)

FORMS: Mapping[str, Form] = MappingProxyType(
    {
        "allocation": allocation.FORM,
        "storage": storage.FORM,
        "grant": grant.FORM,
        "app": app.FORM,
        "user": user.FORM,
        "project": project.FORM,
        "node": node.FORM,
    }
)
