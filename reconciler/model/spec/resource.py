"""Resources: one typed object for each ref, as git wants it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic

from reconciler.model.problem import PathPart, Source
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    SpecT = TypeVar("SpecT", covariant=True, default=Any)
else:
    from typing import TypeVar

    SpecT = TypeVar("SpecT", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource(Generic[SpecT]):
    """One typed object of git.

    `normal` is the JSON form of labels and spec with defaults filled and keyed lists sorted;
    `digest` is its digest. Two spellings of one intent have equal digests. `spec` is the typed
    form, a dataclass of the kind's own module; see kinds/typed_specs.
    """

    ref: Ref
    spec: SpecT
    normal: Mapping[str, Any]
    digest: str
    file: str
    document: int = 0
    line: int = 1
    former_name: str = ""

    @property
    def labels(self) -> Mapping[str, str]:
        labels: Mapping[str, str] = self.normal.get("labels", {})
        return labels

    def source(self, *path: PathPart) -> Source:
        """A place in this resource's document, to be located when a problem is shown."""
        line, column = (self.line, 1) if self.line and not path else (0, 0)
        return Source(file=self.file, document=self.document, path=path, line=line, column=column)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """`ref` is named at `path` of the document that refers to it."""

    ref: Ref
    path: tuple[PathPart, ...]
