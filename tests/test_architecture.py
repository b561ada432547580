"""The house holds itself up: who may import whom, what each room may touch, how large things grow.

The tables below are `docs/architecture.md` in a form that fails.
"""

from __future__ import annotations

import ast
import importlib
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from reconciler.model.ref import KIND_WORDS
from tests.sources import calls, functions, imports, nodes, tree

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "reconciler"
MODULES = sorted(PACKAGE.rglob("*.py"))
HOST_MODULES = sorted((ROOT / "playbooks" / "module_utils").rglob("*.py"))


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


MAY_IMPORT: Mapping[str, frozenset[str]] = {
    "__init__": words(""),
    "shipped": words(""),
    "stops": words(""),
    "atomic_file": words(""),
    "tries": words(""),
    "model": words(""),
    "kinds": words("model"),
    "specs": words("model kinds atomic_file"),
    "planner": words("model kinds"),
    "store": words("model stops tries"),
    "hosts": words("model stops tries"),
    "operations": words(
        "__init__ model kinds specs planner store hosts shipped stops atomic_file tries"
    ),
    "cli": words("__init__ operations model"),
}

PACKAGES_OF_PLANNER: Mapping[str, frozenset[str]] = {
    "core": words(""),
    "identity": words("core"),
    "access": words("core"),
    "lifecycle": words("core"),
    "proof": words("core"),
    "storage": words("core identity"),
    "bundles": words("core storage"),
    "nodes": words("access core identity"),
    "approval": words("core nodes"),
    "placement": words("access bundles core identity nodes storage"),
    "context": words("access approval core storage"),
    "drift": words("access bundles core nodes placement"),
    "diagnosis": words("access core drift placement storage"),
    "diff": words("access context core identity storage"),
    "automation": words("access approval context core diff nodes"),
    "admission": words("approval automation context core diff nodes storage"),
    "changes": words(
        "automation bundles context core diff identity lifecycle nodes placement proof storage"
    ),
    "features": words(
        "access admission approval bundles changes context core diff drift lifecycle nodes"
        " placement storage"
    ),
    "comparison": words(""),
    "rebuild": words("changes core identity"),
    "assemble": words("automation changes core diff features"),
    "plan": words("access admission assemble changes context core diff features placement"),
}
"""Packages and modules of the planner, from the ground up, and which others each may import."""

CENTRES: Mapping[str, frozenset[str]] = {
    "planner/plan": words("features/contract features/registry"),
    "planner/assemble": words("features/contract"),
    "planner/features/contract": words(""),
    "planner/features/registry": words("every"),
    "planner/changes/build": words(""),
    "planner/changes/waves": words(""),
    "planner/changes/held_work": words(""),
}
"""Modules that ask features without naming any, and what they import of `features/`."""

FEATURE_PACKAGES = words("bundles drift nodes storage")

ONLY_IN: Mapping[str, tuple[str, ...]] = {
    "yaml": ("specs",),
    "ruamel": ("specs",),
    "jsonschema": ("specs",),
    "jsonschema_rs": ("specs",),
    "jinja2": ("planner",),
    "sqlite3": ("store",),
    "sqlite_utils": ("store",),
    "ansible_runner": ("hosts",),
    "subprocess": (
        "hosts",
        "specs/git/process",
        "store/backup/litestream",
        "operations/notifications/command",
    ),
    "watchdog": ("operations",),
    "prometheus_client": ("operations/monitoring/metrics", "operations/monitoring/exposition"),
    "click": ("cli",),
    "rich": ("cli",),
    "importlib.resources": ("shipped",),
}

PURE_ROOMS = frozenset({"model", "kinds", "planner"})
IMPURE_MODULES = words(
    "os io sys pathlib shutil tempfile glob socket ssl subprocess multiprocessing threading"
    " asyncio time random secrets uuid urllib http logging getpass platform locale signal"
)
CLOCKS = words("now utcnow today")
FILE_CALLS = words(
    "read_text read_bytes write_text write_bytes iterdir rglob scandir listdir unlink mkdir"
)
FILES_IN_SPECS = frozenset(
    words(
        "read/library edit/edit git/folder git/maintenance git/mirror git/private_checkout"
        " regular_file"
    )
)

CENTRE_OF_THE_STORE = re.compile(
    r"store/(journal|snapshot|transaction|rows|registry/(contract|lifecycle)|tables/resources"
    r"|retention/\w+)"
)
CENTRE_OF_APPLY = re.compile(
    r"operations/apply/(walk|settlement|record|consent|wave/(work|possible|intent|waits|outcomes))"
)
KINDS = frozenset({*KIND_WORDS, *KIND_WORDS.values()})
CORE_TABLES = words("resources runs observations accounts usage")
"""What every resource has: that it is recorded, is worked on, and was seen."""

MODULE_HARD, FUNCTION_HARD, PARAMETERS_HARD = 400, 60, 5
MODULE_MEDIAN, FUNCTION_MEDIAN = 100, 10
MODULE_SOFT, FUNCTION_SOFT, SHARE_ABOVE_SOFT = 250, 30, 0.1

LOOSE_DATACLASSES = frozenset(
    {
        "ProblemError",  # an exception; raising one writes its traceback into it
    }
)

NEWER_THAN_3_9 = re.compile(
    r"slots=True|kw_only=True|strict=True|\bpairwise\b|\bbit_count\b|\bTypeAlias\b|\bParamSpec\b"
    r"|\bTypeGuard\b|\bNoneType\b|root_dir=|isinstance\([^()]*\|"
)

UNWANTED: Mapping[str, re.Pattern[str]] = {
    "unfinished work": re.compile(r"\b(TODO|FIXME|XXX|HACK)\b"),
    "a ticket's number": re.compile(r"\bissues? #?\d|\(#\d+\)", re.IGNORECASE),
    "a place on somebody's machine": re.compile(r"/work/|/root/|/home/(?!<)[a-z]+/(src|code|work)"),
    "a registry's host": re.compile(r"pypi\.org|pythonhosted|docker\.io|quay\.io|ghcr\.io"),
}


def word(path: Path) -> str:
    """`planner/diff/resources` for reconciler/planner/diff/resources.py."""
    return path.relative_to(PACKAGE).with_suffix("").as_posix()


def room(path: Path) -> str:
    return word(path).split("/")[0]


def room_of(module: str) -> str:
    """`planner` for reconciler.planner.plan; `__init__` for what the package itself says."""
    second = module.split(".")[1] if "." in module else ""
    return second if second in MAY_IMPORT else "__init__"


def place(path: Path, node: ast.AST) -> str:
    return f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}"


def is_of(name: str, module: str) -> bool:
    return name == module or name.startswith(module + ".")


def length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


def test_the_top_level_is_that_of_the_plan() -> None:
    """CRD-08: specs, schemas, code, playbooks, templates, state and tests, each in its folder."""
    folders = {path.name for path in ROOT.iterdir() if path.is_dir() and path.name[0] != "."}
    made = {"build", "dist", "__pycache__"}
    assert folders - made == words("specs schemas reconciler playbooks templates state tests docs")
    files = words("pyproject.toml gpuaas.yaml README.md CHANGELOG.md Makefile .ci/run")
    assert all((ROOT / name).is_file() for name in files)


def test_every_room_is_in_the_table() -> None:
    assert {room(path) for path in MODULES} == set(MAY_IMPORT)


def test_imports_go_one_way() -> None:
    wrong = [
        f"{place(path, node)}: {name} is a relative import"
        for path in MODULES
        for name, node in imports(path)
        if name.startswith(".")
    ] + [
        f"{place(path, node)}: {room(path)} imports {name}"
        for path in MODULES
        for name, node in imports(path)
        if is_of(name, "reconciler")
        and (target := room_of(name)) != room(path)
        and target not in MAY_IMPORT[room(path)]
    ]
    assert not wrong, "\n".join(wrong)


def test_packages_of_the_planner_import_one_way() -> None:
    boxes = {word(path).split("/")[1] for path in MODULES if room(path) == "planner"}
    assert boxes - {"__init__"} == set(PACKAGES_OF_PLANNER)
    wrong = []
    for path in MODULES:
        parts = word(path).split("/")
        if parts[0] != "planner" or parts[1] == "__init__":
            continue
        for name, node in imports(path):
            target = name.split(".")[2] if is_of(name, "reconciler.planner") else parts[1]
            if target != parts[1] and target not in PACKAGES_OF_PLANNER[parts[1]]:
                wrong.append(f"{place(path, node)}: {parts[1]} imports {name}")
    assert not wrong, "\n".join(wrong)
    above = list(PACKAGES_OF_PLANNER)
    for at, (box, below) in enumerate(PACKAGES_OF_PLANNER.items()):
        assert below <= set(above[:at]), f"{box} imports what stands above it"


def test_the_centre_of_the_planner_names_no_feature() -> None:
    """A feature is a folder and a row of the registry; what asks it knows neither it nor a kind."""
    kinds = {
        path.stem for path in MODULES if word(path).startswith("kinds/") and path.stem != "__init__"
    }
    named = []
    for module, allowed in CENTRES.items():
        path = PACKAGE / f"{module}.py"
        for name, node in imports(path):
            parts = name.split(".")
            if parts[:2] != ["reconciler", "planner"] or "every" in allowed:
                continue
            if parts[2] in FEATURE_PACKAGES:
                named.append(f"{place(path, node)}: {name}")
            if parts[2] == "features" and "/".join(parts[2:4]) not in allowed:
                named.append(f"{place(path, node)}: {name}")
        for node in nodes(path):
            if isinstance(node, ast.Constant) and node.value in kinds:
                named.append(f"{place(path, node)}: the kind {node.value}")
    assert not named, "\n".join(named)


def test_the_outside_is_touched_in_its_room_only() -> None:
    wrong = [
        f"{place(path, node)}: {module} belongs to {', '.join(homes)}"
        for path in MODULES
        for name, node in imports(path)
        for module, homes in ONLY_IN.items()
        if is_of(name, module) and not {room(path), word(path)} & set(homes)
    ]
    assert not wrong, "\n".join(wrong)


def test_no_shell_of_this_machine_is_asked() -> None:
    """F-ANS-01: programs are started with a list of words, never with a line."""
    wrong = [
        f"{place(path, node)}: {name}()"
        for path in (*MODULES, *HOST_MODULES)
        for name, node in calls(path)
        if name in {"system", "popen", "getoutput", "getstatusoutput"}
        or any(keyword.arg == "shell" for keyword in node.keywords)
    ]
    assert not wrong, "\n".join(wrong)


def test_the_core_is_pure() -> None:
    wrong = [
        f"{place(path, node)}: {room(path)} must not use {name}"
        for path in MODULES
        if room(path) in PURE_ROOMS
        for name, node in imports(path)
        if name.split(".")[0] in IMPURE_MODULES
    ] + [
        f"{place(path, node)}: {room(path)} must not call {name}()"
        for path in MODULES
        if room(path) in PURE_ROOMS
        for name, node in calls(path)
        if name in CLOCKS | FILE_CALLS | {"open", "input"}
    ]
    assert not wrong, "\n".join(wrong)


def test_the_store_is_handed_its_clock() -> None:
    wrong = [
        f"{place(path, node)}: {name}()"
        for path in MODULES
        if room(path) == "store" and path.stem != "lock"  # which says since when it is held
        for name, node in calls(path)
        if name in CLOCKS
    ]
    assert not wrong, "\n".join(wrong)


def test_spec_files_are_read_in_one_place() -> None:
    wrong = [
        f"{place(path, node)}: {name}()"
        for path in MODULES
        if room(path) == "specs" and word(path).removeprefix("specs/") not in FILES_IN_SPECS
        for name, node in calls(path)
        if name in FILE_CALLS | {"open"}
    ]
    assert not wrong, "\n".join(wrong)


def test_no_import_cycles() -> None:
    names = {"reconciler." + word(path).replace("/", "."): path for path in MODULES}
    graph = {
        module: {
            known
            for name, _ in imports(path)
            for known in (name, name.rpartition(".")[0])
            if known in names and known != module
        }
        for module, path in names.items()
    }
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, " -> ".join((*trail[trail.index(module) :], module))
        if module not in done:
            for target in sorted(graph[module]):
                visit(target, (*trail, module))
            done.add(module)

    for module in sorted(graph):
        visit(module, ())


def test_own_code_is_imported_at_the_top() -> None:
    wrong = [
        f"{place(path, inner)}: local import in {function.name}()"
        for path in MODULES
        for function in functions(path)
        for inner in ast.walk(function)
        if isinstance(inner, (ast.Import, ast.ImportFrom))
        and "reconciler" in ast.unparse(inner)
        and room(path) != "cli"
    ] + [
        f"{place(path, node)}: import_module() outside cli"
        for path in MODULES
        if room(path) != "cli"
        for name, node in calls(path)
        if name in {"import_module", "__import__"}
    ]
    assert not wrong, "\n".join(wrong)


def test_what_the_cli_imports_late_is_there() -> None:
    """Nobody else holds these names: a type checker does not see what `import_module` gives."""
    wrong = [
        f"{place(path, node)}: {module} has no {node.attr}"
        for path in MODULES
        if room(path) == "cli"
        for function in functions(path)
        for node, module in late_names(function)
        if not hasattr(importlib.import_module(module), node.attr)
    ]
    assert not wrong, "\n".join(wrong)


def late_names(
    function: ast.FunctionDef | ast.AsyncFunctionDef,
) -> Iterator[tuple[ast.Attribute, str]]:
    """Each attribute of a module that is imported where it is used, and the module."""

    def late(node: ast.AST) -> str:
        match node:
            case ast.Call(func=ast.Name(id="import_module"), args=[ast.Constant(value=str(name))]):
                return name
            case ast.Name(id=name):
                return names.get(name, "")
        return ""

    names: dict[str, str] = {}
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call) if late(call):
                names[name] = late(call)
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and (module := late(node.value)):
            yield node, module


def test_the_centre_of_the_store_names_no_feature() -> None:
    """Features have rows in `store/registry/registry`; the centre goes over them, in order."""
    centre = [path for path in MODULES if CENTRE_OF_THE_STORE.fullmatch(word(path))]
    assert len(centre) > len(CORE_TABLES)
    wrong = [
        f"{place(path, node)}: {name}"
        for path in centre
        for name, node in imports(path)
        if (table := re.match(r"reconciler\.store\.tables\.(\w+)", name))
        and table[1] not in CORE_TABLES
    ] + [
        f"{place(path, node)}: {node.value!r} is a kind"
        for path in centre
        for node in nodes(path)
        if isinstance(node, ast.Constant) and node.value in KINDS
    ]
    assert not wrong, "\n".join(wrong)


def test_the_centre_of_apply_names_no_feature() -> None:
    """What is asked of a verb beyond its doing stands in `operations/apply/handlers`."""
    centre = [path for path in MODULES if CENTRE_OF_APPLY.fullmatch(word(path))]
    assert len(centre) == len(re.findall(r"\w+(?=[|)])", CENTRE_OF_APPLY.pattern))
    wrong = [
        f"{place(path, node)}: {name}"
        for path in centre
        for name, node in imports(path)
        if re.match(r"reconciler\.(kinds|planner\.(bundles|storage|access|nodes|drift))\b", name)
    ] + [
        f"{place(path, node)}: {node.value!r}"
        for path in centre
        for node in nodes(path)
        if isinstance(node, ast.Constant)
        and (node.value in KINDS or re.fullmatch(r"[a-z]+\.[a-z]+", str(node.value)))
    ]
    assert not wrong, "\n".join(wrong)


def test_only_the_cli_speaks() -> None:
    wrong = [
        f"{place(path, node)}: {name}()"
        for path in MODULES
        if room(path) != "cli"
        for name, node in calls(path)
        if name in {"print", "echo", "secho"}
    ] + [
        f"{place(path, node)}: sys.{node.attr}"
        for path in MODULES
        if room(path) != "cli"
        for node in nodes(path)
        if isinstance(node, ast.Attribute)
        and node.attr in {"stdout", "stderr", "stdin"}
        and isinstance(node.value, ast.Name)
        and node.value.id == "sys"
        and path.stem != "supervisor"  # a process of its own, which speaks to its parent
    ]
    assert not wrong, "\n".join(wrong)


def test_one_broad_except_at_the_cli_boundary() -> None:
    def broad(handler: ast.ExceptHandler) -> bool:
        caught = ast.unparse(handler.type) if handler.type else "BaseException"
        swallows = not isinstance(handler.body[-1], ast.Raise)
        return swallows and re.search(r"\b(Base)?Exception\b", caught) is not None

    found = [
        (path, place(path, node))
        for path in (*MODULES, *HOST_MODULES)
        for node in nodes(path)
        if isinstance(node, ast.ExceptHandler) and broad(node)
    ]
    outside = [where for path, where in found if not path.is_relative_to(PACKAGE / "cli")]
    assert not outside, "\n".join(outside)
    assert len(found) <= 1, found


def test_hard_budgets() -> None:
    """Modules of at most 400 lines, functions of at most 60 with at most 5 parameters."""
    wrong = [
        f"{path.relative_to(ROOT)}: {lines} lines"
        for path in (*MODULES, *HOST_MODULES)
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > MODULE_HARD
    ]
    for path in (*MODULES, *HOST_MODULES):
        for function in functions(path):
            if length(function) > FUNCTION_HARD:
                wrong.append(f"{place(path, function)}: {function.name} {length(function)} lines")
            if parameters(function) > PARAMETERS_HARD and not is_command(function):
                wrong.append(
                    f"{place(path, function)}: {function.name} {parameters(function)} par."
                )
    assert not wrong, "\n".join(wrong)


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    given = function.args
    every = [arg.arg for arg in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return len([name for name in every if name not in {"self", "cls"}])


def is_command(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """A click command's parameters are the options of its user."""
    return any(".command(" in ast.unparse(decorator) for decorator in function.decorator_list)


def test_soft_budgets() -> None:
    """Nine in ten are small, and so is the typical one: the measure of our anchors."""
    modules = [len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES]
    modules = [lines for lines in modules if lines > 1]
    each = [length(function) for path in MODULES for function in functions(path)]
    assert statistics.median(modules) <= MODULE_MEDIAN
    assert statistics.median(each) <= FUNCTION_MEDIAN
    assert sum(lines > MODULE_SOFT for lines in modules) <= SHARE_ABOVE_SOFT * len(modules)
    assert sum(lines > FUNCTION_SOFT for lines in each) <= SHARE_ABOVE_SOFT * len(each)


def test_modules_say_what_they_know() -> None:
    wrong = [
        str(path.relative_to(ROOT))
        for path in (*MODULES, *HOST_MODULES)
        if tree(path).body and not ast.get_docstring(tree(path))
    ]
    assert not wrong, "\n".join(wrong)


def test_modules_are_words_of_the_domain() -> None:
    banned = {"util", "utils", "helper", "helpers", "common", "manager", "base", "misc", "tools"}
    assert not [word(path) for path in MODULES if path.stem in banned]


def test_data_between_rooms_is_frozen() -> None:
    crossing = {
        name
        for path in MODULES
        for name, _ in imports(path)
        if is_of(name, "reconciler") and room_of(name) != room(path)
    }
    wrong = [
        f"{place(path, node)}: {node.name} is not frozen, slotted and keyword-only"
        for path in MODULES
        for node in nodes(path)
        if isinstance(node, ast.ClassDef)
        and f"reconciler.{word(path).replace('/', '.')}.{node.name}" in crossing
        for decorator in map(ast.unparse, node.decorator_list)
        if decorator.startswith("dataclass")
        and node.name not in LOOSE_DATACLASSES
        and not all(f"{option}=True" in decorator for option in ("frozen", "slots", "kw_only"))
    ]
    assert not wrong, "\n".join(wrong)


def test_core_knows_no_scheduler() -> None:
    """OBJ-13: slurm and rke2 are words of kinds/runtimes alone."""
    core = [path for path in MODULES if "runtimes" not in path.parts]
    core += sorted((ROOT / "schemas").glob("allocation*")) + sorted(PACKAGE.rglob("*.sql"))
    wrong = [
        f"{path.relative_to(ROOT)}"
        for path in core
        if re.search("slurm|rke2", path.read_text(encoding="utf-8"), re.IGNORECASE)
    ]
    assert not wrong, "\n".join(wrong)


def test_host_code_needs_nothing_but_python_3_9() -> None:
    own = {"gpuaas", "__future__"} | {path.stem for path in HOST_MODULES}
    wrong = [
        f"{place(path, node)}: {name}"
        for path in HOST_MODULES
        for name, node in imports(path)
        if name.split(".")[0] not in (sys.stdlib_module_names - {"tomllib"}) | {""}
        and not any(is_of(name, module) for module in own)
    ] + [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in HOST_MODULES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if NEWER_THAN_3_9.search(line)
    ]
    assert not wrong, "\n".join(wrong)


def test_ansible_lint_skips_nothing() -> None:
    settings = (ROOT / ".ansible-lint").read_text(encoding="utf-8")
    assert "profile: production" in settings
    assert "skip_list: []" in settings and "warn_list: []" in settings


def own_texts() -> list[Path]:
    """Every text file that is, or will be, committed."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    texts = (ROOT / name for name in listed if not name.startswith("tests/data/"))
    return [path for path in texts if path.is_file() and path != Path(__file__)]


@pytest.mark.parametrize("what", UNWANTED)
def test_nothing_in_the_house_shows(what: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path in own_texts()
        for number, line in enumerate(path.read_text("utf-8", "replace").splitlines(), 1)
        if UNWANTED[what].search(line)
    ]
    assert not wrong, "\n".join(wrong)
