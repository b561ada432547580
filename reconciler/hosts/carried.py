"""Carried code: modules of the host code as one script, for the stdin of a bare Python.

Nothing is installed on a host to be asked; what it runs is what this version of gpuaas ships.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = "gpuaas"
_IMPORT = re.compile(r"^from \.(\w*) import (\([^)]*\)|.*)$", re.MULTILINE)

_LOADER = """\
import gc, os, sys, types

gc.disable()

class Source:
    def __init__(self, text):
        self.text = text

    def get_source(self, name):
        return self.text

def load(name, source, run_as):
    module = types.ModuleType(run_as)
    module.__package__ = {package!r}
    module.__loader__ = Source(source)
    sys.modules[run_as] = module
    exec(compile(source, name + ".py", "exec", dont_inherit=True), module.__dict__)

package = types.ModuleType({package!r})
package.__path__ = []
sys.modules[{package!r}] = package
"""

_END = """\
sys.stdout.flush()
os._exit(0)
"""
"""A process this short neither collects its garbage nor takes itself apart: a tenth of its time."""


@cache
def carried(folder: Path, entry: str) -> bytes:
    """A script that runs `entry` of the modules in `folder` as `__main__`, its siblings beside it.

    Arguments go to the script as they would to the module; a module's `__loader__` has its source.
    """
    *siblings, main = _in_import_order(folder, entry, [])
    calls = [
        *(f"load({name!r}, {source!r}, {f'{PACKAGE}.{name}'!r})\n" for name, source in siblings),
        f"load({main[0]!r}, {main[1]!r}, '__main__')\n",
    ]
    script = _LOADER.format(package=PACKAGE) + "".join(calls) + _END
    return script.encode("ascii", "backslashreplace")


def _in_import_order(folder: Path, name: str, seen: list[str]) -> Iterator[tuple[str, str]]:
    """`name` and what it imports, each once and after its own imports."""
    seen.append(name)
    source = (folder / f"{name}.py").read_text(encoding="utf-8")
    for module, names in _IMPORT.findall(source):
        for sibling in [module] if module else re.findall(r"\w+", names):
            if sibling not in seen:
                yield from _in_import_order(folder, sibling, seen)
    yield name, source
