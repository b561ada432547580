"""The work of an apply as plain operations, so that peers can do the very same."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

Folders = tuple[tuple[str, str], ...]
Files = tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Operations on one host, in order: a folder or a file each, in a root that is there.

    Those of each allocation stand together: folders (path, mode), files (path, mode, content). The
    folders that lead to them come before all others, with the first allocation.
    """

    address: str
    allocations: tuple[tuple[Folders, Files], ...]


def work_of(address: str, made: Path, root: Path) -> Work:
    """What an apply has made below `made`, to be made below `root`."""
    root.mkdir(parents=True)
    known: set[Path] = set()
    allocations = []
    for descriptor in sorted((made / "etc/gpuaas/allocations").iterdir()):
        folders, files = paths_of(made, descriptor)
        leading = {parent for path in folders + files for parent in path.parents[:-1]} - known
        known |= leading
        allocations.append(
            (
                tuple(
                    (str(root / path), mode_of(made / path))
                    for path in (*sorted(leading), *folders)
                ),
                tuple(
                    (str(root / path), mode_of(made / path), (made / path).read_text())
                    for path in files
                ),
            )
        )
    return Work(address=address, allocations=tuple(allocations))


def paths_of(made: Path, descriptor: Path) -> tuple[list[Path], list[Path]]:
    """The folders and the files of one allocation, below the root."""
    text = descriptor.read_text()
    login = next(home.name for home in (made / "home").iterdir() if f'"{home.name}"' in text)
    etc = Path("etc/gpuaas")
    return (
        [Path("home", login), Path("var/lib/gpuaas/scratch", descriptor.stem)],
        [
            etc / "allocations" / descriptor.name,
            etc / "runtime/allocations" / f"{descriptor.stem}.env",
            etc / "ssh" / login,
        ],
    )


def mode_of(path: Path) -> str:
    return f"{path.stat().st_mode & 0o777:04o}"
