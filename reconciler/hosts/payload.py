"""The payload: modules of the host code as one script, for the stdin of a bare Python.

Nothing is installed on a host to be asked; what it runs is what this version of gpuaas ships.
"""

from __future__ import annotations

import marshal
import re
import zlib
from binascii import b2a_base64
from collections.abc import Iterator
from functools import cache
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from threading import Lock

PACKAGE = "gpuaas"
_IMPORT = re.compile(r"^from \.(\w*) import (\([^)]*\)|.*)$", re.MULTILINE)

_LOADER = """\
import gc, marshal, os, sys, types, zlib
from _frozen_importlib_external import MAGIC_NUMBER
from binascii import a2b_base64

gc.disable()
sys.stdout.write("\\n")
sys.stdout.flush()

def unpacked(text):
    return zlib.decompress(a2b_base64(text))

sources = {{}}

def source_of(name):
    if not sources:
        words = unpacked({sources!r}).decode("utf-8").split("\\0")
        sources.update(zip(words[::2], words[1::2]))
    return sources[name]

class Source:
    def __init__(self, name):
        self.name = name

    def get_source(self, name):
        return source_of(self.name)

class Module(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__") or not load(self):
            raise AttributeError(name)
        return getattr(self, name)

def made(name, run_as):
    module = Module(run_as)
    module.__package__ = {package!r}
    module.__loader__ = Source(name)
    sys.modules[run_as] = module
    return module

def run(module):
    name = module.__loader__.name
    code = codes.pop(name)
    if code is None:
        code = compile(source_of(name), name + ".py", "exec", dont_inherit=True)
    else:
        code = marshal.loads(code)
    exec(code, module.__dict__)

def load(module):
    if module.__loader__.name not in codes:
        return False
    try:
        run(module)
    except AttributeError as error:
        raise ImportError(str(error)) from error
    for each in list(vars(module).values()):
        if isinstance(each, Module):
            load(each)
    return True

package = types.ModuleType({package!r})
package.__path__ = []
sys.modules[{package!r}] = package
ours = MAGIC_NUMBER == {magic!r}
codes = dict(zip({names!r}, marshal.loads(unpacked({codes!r})) if ours else [None] * {count}))
for name in {names!r}:
    if name != {main!r}:
        setattr(package, name, made(name, {package!r} + "." + name))
run(made({main!r}, "__main__"))
sys.stdout.flush()
os._exit(0)
"""
"""It speaks at once: whoever waits for it knows from then on that it is in.

A process this short neither collects its garbage nor takes itself apart: a tenth of its time. A
module is run when the first of its names is asked for, and all that it imports with it: of all
verbs those that are asked for, none of them in the midst of work.
"""


_one_at_a_time = Lock()


def carried(folder: Path, entry: str) -> bytes:
    """A script that runs `entry` of the modules in `folder` as `__main__`, its siblings beside it.

    Arguments go to the script as they would to the module; a module's `__loader__` has its source.
    A host with our Python is spared the compiling, any other compiles for itself. It is made once:
    whoever asks while it is being made waits for it, as those do who ask all hosts at a time.
    """
    with _one_at_a_time:
        return _made(folder, entry)


@cache
def _made(folder: Path, entry: str) -> bytes:
    modules = dict(_in_import_order(folder, entry, []))
    codes = [
        marshal.dumps(compile(source, f"{name}.py", "exec", dont_inherit=True))
        for name, source in modules.items()
    ]
    sources = "\0".join(word for module in modules.items() for word in module)
    script = _LOADER.format(
        package=PACKAGE,
        magic=MAGIC_NUMBER,
        names=tuple(modules),
        count=len(modules),
        main=entry,
        codes=_packed(marshal.dumps(codes)),
        sources=_packed(sources.encode("utf-8")),
    )
    return script.encode("ascii")


def _packed(data: bytes) -> str:
    """Small on the way, and one plain word to the Python that reads the script.

    To make it smaller by a hundredth more takes four times as long.
    """
    return b2a_base64(zlib.compress(data), newline=False).decode("ascii")


def _in_import_order(folder: Path, name: str, seen: list[str]) -> Iterator[tuple[str, str]]:
    """`name` and what it imports, each once and after its own imports."""
    seen.append(name)
    source = (folder / f"{name}.py").read_text(encoding="utf-8")
    for module, names in _IMPORT.findall(source):
        for sibling in [module] if module else re.findall(r"\w+", names):
            if sibling not in seen:
                yield from _in_import_order(folder, sibling, seen)
    yield name, source
