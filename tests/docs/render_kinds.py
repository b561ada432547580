"""`python -m tests.docs.render_kinds` writes a page a kind below docs/reference/kinds/.

What a field is comes from the kind's schema, what a change of it does from the kind's own rules.
The list of kinds that rules of automation may be about is written into the schema of the Policy.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from reconciler.kinds.registry import KINDS
from reconciler.model.ref import PROJECT_KINDS
from tests.kinds.readers import WHOLLY_REFUSED

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "reference" / "kinds"
POLICY = ROOT / "schemas" / "policy.schema.json"
EXAMPLES = ROOT / "docs" / "reference" / "examples"

Schema = Mapping[str, Any]


def render(word: str) -> str:
    schema = json.loads((ROOT / "schemas" / f"{word}.schema.json").read_text(encoding="utf-8"))
    kind = KINDS[word]
    spec = schema["properties"]["spec"]
    place = "stands in a project" if word in PROJECT_KINDS else "belongs to the whole fleet"
    ref = f"{word}/PROJECT/NAME" if word in PROJECT_KINDS else f"{word}/NAME"
    parts = [
        f"# {kind.NAME}\n",
        "Made from its schema by `python -m tests.docs.render_kinds`; a test keeps it current.\n",
        f"{schema['description']} It {place}: `{ref}`.\n",
        "| field | type | default | meaning | who | change |",
        "|---|---|---|---|---|---|",
    ]
    for path, field, required in fields(spec, schema["$defs"], "spec"):
        cells = (
            f"`{path.removeprefix('spec.')}`" + (" \\*" if required else ""),
            type_of(field),
            "" if gated(path, schema) else default_of(field),
            field.get("description", "") + gated(path, schema),
            field.get("x-who", ""),
            kind.FIELD_RULES.get(path, ""),
        )
        parts.append("| " + " | ".join(cell.replace("|", "&#124;") for cell in cells) + " |")
    parts.append("\n\\* required. An empty *who* or *change* is that of the field above it.\n")
    if (example := EXAMPLES / f"{word}.yaml").exists():
        parts.append(f"An example ([{example.name}](../examples/{example.name})):\n")
        parts.append(f"```yaml\n{example.read_text(encoding='utf-8').rstrip()}\n```\n")
    return "\n".join(parts)


def fields(schema: Schema, defs: Schema, path: str) -> Iterator[tuple[str, Schema, bool]]:
    """Every field below an object, depth first, with its path in the words of FIELD_RULES."""
    required = schema.get("required", ())
    for name, stated in schema.get("properties", {}).items():
        if stated is False or "not" in stated:
            continue
        field = resolved(stated, defs)
        here = f"{path}.{name}"
        yield here, field, name in required
        items = resolved(field.get("items", {}), defs)
        yield from fields(field, defs, here)
        yield from fields(items, defs, f"{here}[]")


def gated(path: str, schema: Schema) -> str:
    """What is said of a field that belongs to a feature which is not built, or stands in one."""
    part: Schema = schema["properties"]["spec"]
    for name in path.removeprefix("spec.").split("."):
        part = part.get("items", part).get("properties", {}).get(name.removesuffix("[]"), {})
        if feature := part.get("x-gate"):
            return f" Refused until [{feature}](../features.md) is built."
    return ""


def resolved(schema: Schema, defs: Schema) -> Schema:
    """A reference with what it refers to; what is said here comes first."""
    if "$ref" not in schema:
        return schema
    word = schema["$ref"].rpartition("/")[2]
    return {**defs.get(word, {}), "x-type": word, **schema}


def type_of(field: Schema) -> str:
    if "enum" in field:
        return " / ".join(str(choice) for choice in field["enum"])
    if "const" in field:
        return json.dumps(field["const"])
    if "anyOf" in field:
        return " / ".join(type_of(resolved(choice, {})) for choice in field["anyOf"])
    kind = field.get("x-type") or field.get("type", "")
    if kind == "array":
        inside = resolved(field.get("items", {}), {})
        key = field.get("x-key", "")
        keyed = f", by {key if isinstance(key, str) else ' and '.join(key)}" if key else ""
        return f"list of {type_of(inside) or 'object'}{keyed}" + count(
            field, "minItems", "maxItems"
        )
    if kind == "integer":
        return kind + count(field, "minimum", "maximum")
    return str(kind)


def count(field: Schema, least: str, most: str) -> str:
    if least not in field and most not in field:
        return ""
    return f" ({field.get(least, 0)} to {field[most]})" if most in field else f" (≥ {field[least]})"


def default_of(field: Schema) -> str:
    return f"`{json.dumps(field['default'], ensure_ascii=False)}`" if "default" in field else ""


def naming_kinds(schema: str) -> str:
    """The text of the Policy's schema, its rules of automation about each kind that does anything.

    The text is kept as it is but for that list, since people write the rest of it.
    """
    words = json.dumps(sorted(word for word in KINDS if word not in WHOLLY_REFUSED))
    start = schema.index('"enum": [', schema.index("Kinds that it applies to")) + len('"enum": ')
    return schema[:start] + words + schema[schema.index("]", start) + 1 :]


if __name__ == "__main__":
    POLICY.write_text(naming_kinds(POLICY.read_text("utf-8")), encoding="utf-8")
    FOLDER.mkdir(parents=True, exist_ok=True)
    for each in sorted(KINDS):
        (FOLDER / f"{each}.md").write_text(render(each), encoding="utf-8")
