"""Carried code: modules of the host code as one script, for the stdin of a bare Python.

Nothing is installed on a host to be asked; what it runs is what this version of gpuaas ships.
"""

from __future__ import annotations

import marshal
import re
from collections.abc import Iterator
from functools import cache
from importlib.util import MAGIC_NUMBER
from pathlib import Path

PACKAGE = "gpuaas"
_IMPORT = re.compile(r"^from \.(\w*) import (\([^)]*\)|.*)$", re.MULTILINE)

_LOADER = """\
import gc, marshal, os, sys, types
from _frozen_importlib_external import MAGIC_NUMBER

gc.disable()
sys.stdout.write("\\n")
sys.stdout.flush()

class Source:
    def __init__(self, text):
        self.text = text

    def get_source(self, name):
        return self.text

def load(name, run_as, source, compiled):
    module = types.ModuleType(run_as)
    module.__package__ = {package!r}
    module.__loader__ = Source(source)
    sys.modules[run_as] = module
    if MAGIC_NUMBER == {magic!r}:
        code = marshal.loads(compiled)
    else:
        code = compile(source, name + ".py", "exec", dont_inherit=True)
    exec(code, module.__dict__)

package = types.ModuleType({package!r})
package.__path__ = []
sys.modules[{package!r}] = package
"""
"""It speaks at once: whoever waits for it knows from then on that it is in."""

_END = """\
sys.stdout.flush()
os._exit(0)
"""
"""A process this short neither collects its garbage nor takes itself apart: a tenth of its time."""


@cache
def carried(folder: Path, entry: str) -> bytes:
    """A script that runs `entry` of the modules in `folder` as `__main__`, its siblings beside it.

    Arguments go to the script as they would to the module; a module's `__loader__` has its source.
    A host with our Python is spared the compiling, any other compiles for itself.
    """
    *siblings, main = _in_import_order(folder, entry, [])
    calls = [_call(name, f"{PACKAGE}.{name}", source) for name, source in siblings]
    calls.append(_call(main[0], "__main__", main[1]))
    loader = _LOADER.format(package=PACKAGE, magic=MAGIC_NUMBER)
    return "".join((loader, *calls, _END)).encode("ascii", "backslashreplace")


def _call(name: str, run_as: str, source: str) -> str:
    compiled = marshal.dumps(compile(source, f"{name}.py", "exec", dont_inherit=True))
    return f"load({name!r}, {run_as!r}, {source!r}, {compiled!r})\n"


def _in_import_order(folder: Path, name: str, seen: list[str]) -> Iterator[tuple[str, str]]:
    """`name` and what it imports, each once and after its own imports."""
    seen.append(name)
    source = (folder / f"{name}.py").read_text(encoding="utf-8")
    for module, names in _IMPORT.findall(source):
        for sibling in [module] if module else re.findall(r"\w+", names):
            if sibling not in seen:
                yield from _in_import_order(folder, sibling, seen)
    yield name, source
