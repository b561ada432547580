"""Requirements: the releases that a version of a bundle is made of, each with its hashes.

They are handed to pip only in the one form that is written here.
"""

from __future__ import annotations

from reconciler.model.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One release. `hashes` are SHA-256 in hex; `marker` is empty for every machine."""

    name: str
    version: str
    hashes: tuple[str, ...]
    extras: tuple[str, ...] = ()
    marker: str = ""

    def __str__(self) -> str:
        extras = f"[{','.join(self.extras)}]" if self.extras else ""
        marker = f" ; {self.marker}" if self.marker else ""
        hashes = "".join(f" --hash=sha256:{one}" for one in self.hashes)
        return f"{self.name}{extras}=={self.version}{marker}{hashes}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """All of a lock, in its order."""

    releases: tuple[Requirement, ...] = ()

    @property
    def text(self) -> str:
        """What pip is given: ASCII, a release a line, no comments and no continued lines."""
        return "".join(f"{one}\n" for one in self.releases)
