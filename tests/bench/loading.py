"""From text to a validated document, in µs: beside CSafeLoader with a compiled jsonschema."""

from __future__ import annotations

import gc
import json
import shutil
import sys
from pathlib import Path

import jsonschema
import yaml

from reconciler import shipped
from reconciler.specs.read.validation import Validator
from reconciler.specs.read.yaml_reader import read_documents
from tests import fleets
from tests.bench import prepared
from tests.bench.measuring import Row, at_least, run, scaled, timed

ROUNDS = 3
PEER = Path(__file__).with_name("peer_load.py")


def main(work: Path, scale: float) -> None:
    documents(scaled(2000, scale, least=50))
    whole(work, scaled(10000, scale, least=100))


def documents(count: int) -> None:
    """One kind of document, 25 lines each, in one process."""
    texts = [fleets.to_yaml(fleets.user(f"p{number}")).encode() for number in range(count)]
    schema = shipped.schemas()["user"]
    slow = jsonschema.Draft202012Validator(json.loads(schema))
    fast = Validator(schema)

    def ours() -> None:
        for text in texts:
            parsed = read_documents("p.yaml", text)
            assert not fast.flaws(parsed.documents[0].document.value)

    def beside() -> None:
        for text in texts:
            assert not list(slow.iter_errors(yaml.load(text, yaml.CSafeLoader)))

    def parse() -> None:
        for text in texts:
            read_documents("p.yaml", text)

    def parse_beside() -> None:
        for text in texts:
            yaml.load(text, yaml.CSafeLoader)

    gc.freeze()
    both, both_beside, parsed, parsed_beside = timed(ROUNDS, ours, beside, parse, parse_beside)
    lines = len(texts[0].splitlines())
    tell(
        f"parse with positions, {lines} lines", parsed / count, "CSafeLoader", parsed_beside / count
    )
    tell(
        "parse and validate",
        both / count,
        "CSafeLoader + jsonschema",
        both_beside / count,
        reach=2.5,
    )


def whole(work: Path, count: int) -> None:
    """Every kind, from files: `gpuaas validate` without a cache beside the plain libraries."""
    folder = work / "unread"
    fleets.write(folder, fleets.mixed(count))
    ours = run(prepared.VALIDATE, folder)
    beside = run([sys.executable, str(PEER), str(folder), str(shipped.folder("schemas"))], folder)
    tell(
        f"gpuaas validate, {count} files, cold",
        ours.seconds / count,
        "CSafeLoader + jsonschema",
        beside.seconds / count,
        reach=2.5,
    )
    shutil.rmtree(folder)


def tell(what: str, ours: float, peer: str, beside: float, reach: float | None = None) -> None:
    ahead = at_least(beside / ours, reach) if reach else {"ratio": f"{beside / ours:.1f} x ahead"}
    Row(
        topic="load",
        what=what,
        ours=f"{ours * 1e6:.0f} µs a document",
        beside=f"{peer} {beside * 1e6:.0f} µs",
        **ahead,  # type: ignore[arg-type]
    ).tell()


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
