"""YAML errors, in words for the person who wrote the file."""

from __future__ import annotations

from dataclasses import replace

from yaml.error import MarkedYAMLError, YAMLError
from yaml.reader import ReaderError

from reconciler.model.problem import Problem, Severity, Source
from reconciler.specs.read.scalars import Scalar
from reconciler.specs.read.text import end_of, place_of

DEPTH_LIMIT = 64
EXPANSION_LIMIT = 100_000
TEXT_OF_A_VALUE = 64
"""So many characters of text count as one value more."""
PROBLEM_LIMIT = 200
"""Of one file; nobody reads more of them at a time."""

KEY_NOT_TEXT = Problem(
    code="yaml_key_not_text",
    message="a key must be text",
    hint="write a single word, or text in quotes, before the colon",
)
MERGE_OF_NO_MAPPING = Problem(
    code="yaml_syntax",
    message="`<<` takes a mapping, or a list of mappings",
    hint="name an anchor of a mapping: `<<: *name`",
)
TOO_DEEP = Problem(
    code="yaml_depth",
    message=f"nested deeper than {DEPTH_LIMIT} levels; the rest of the file was not read",
    hint="no spec needs that: look for brackets or dashes too many",
)
TOO_LARGE = Problem(
    code="yaml_expansion",
    message=f"aliases expand to more than {EXPANSION_LIMIT:,} values, or as much text as would fill"
    " these; the rest was not read",
    hint="write the values out where they are needed",
)
TOO_MANY = Problem(
    code="problems_too_many",
    message=f"more than {PROBLEM_LIMIT} problems in this file; its rest was not looked at",
    hint="mend the first ones; perhaps it is not meant to be a spec: move it out of the spec root",
)


def duplicate_key(key: str, first: int, second: int) -> Problem:
    return Problem(
        code="yaml_duplicate_key",
        message=f"`{key}` stands twice in one mapping: in line {first + 1} and in {second + 1}",
        hint="keep one of them; make one list or mapping of both, if both are meant",
    )


def key_problem(key: Scalar | Problem, tag: str | None) -> Problem:
    if tag is not None:
        return tag_problem(tag)
    if isinstance(key, Problem) and key.code == "yaml_ambiguous":
        return key
    return KEY_NOT_TEXT


def tag_problem(tag: str) -> Problem:
    shown = tag.replace("tag:yaml.org,2002:", "!!")
    return Problem(
        code="yaml_tag",
        message=f"the tag `{shown}` is not read here",
        hint="delete it; write text in quotes if it is meant as text",
    )


def alias_problem(name: str, contains_itself: bool) -> Problem:
    if contains_itself:
        message = f"`*{name}` stands inside what `&{name}` names: it would contain itself"
    else:
        message = f"`*{name}` refers to nothing: there is no `&{name}` before it in this document"
    return Problem(code="yaml_alias", message=message, hint="write the value out here")


def not_a_mapping(value: object) -> Problem:
    what = "a list" if isinstance(value, list) else "a single value"
    return Problem(
        code="document_not_mapping",
        message=f"a document is a mapping of fields, and this is {what}",
        hint="start it with `apiVersion: gpuaas/v1`; separate documents by a line of `---`",
    )


def empty_file(file: str) -> Problem:
    return Problem(
        code="file_empty",
        message="the file holds no document",
        hint="write a document that starts with `apiVersion: gpuaas/v1`, or delete the file",
        source=Source(file=file, line=1, column=1),
        severity=Severity.WARNING,
    )


_HINTS = {
    "tab character": "indent with spaces, never with tabs",
    "cannot start any token": "indent with spaces, never with tabs; put text that starts with a "
    "special character in quotes",
    "mapping values are not allowed": "put text that holds a colon in quotes; check that this "
    "line and the one above are indented alike",
    "did not find expected key": "check the indentation of this line and the ones above",
    "could not find expected ':'": "every field is `name: value`; check quotes and indentation",
    "unexpected end of": "close the quote or bracket that is opened here",
    "did not find expected ',' or": "close the bracket, or separate its entries by commas",
}


def syntax_problem(file: str, index: int, content: bytes, error: YAMLError) -> Problem:
    """libyaml's own words, in the place where the reader will want to look."""
    source = Source(file=file, document=max(index, 0), line=1, column=1)
    message = str(error)
    if isinstance(error, MarkedYAMLError):
        message = ", ".join(part for part in (error.context, error.problem) if part)
        opened = "unexpected end of" in message or "parsing a flow" in message
        mark = (error.context_mark if opened else None) or error.problem_mark
        if mark is not None:
            line, column = min((mark.line + 1, mark.column + 1), end_of(content))
            source = replace(source, line=line, column=column)
    elif isinstance(error, ReaderError):
        message = f"a character that YAML does not allow: {error.reason}"
        place = place_of(file, content, error.position)
        source = replace(source, line=place.line, column=place.column)
    if "nesting depth" in message:
        return TOO_DEEP.at(source)
    hints = [hint for words, hint in _HINTS.items() if words in message]
    return Problem(
        code="yaml_syntax",
        message=message,
        hint=hints[0] if hints else "check quotes, brackets and indentation",
        source=source,
    )
