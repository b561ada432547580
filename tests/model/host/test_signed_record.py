"""A signature is over all that a record says, and is made and checked in one place."""

from __future__ import annotations

import re

import pytest

from reconciler.model.canonical import digest, text_digest
from reconciler.model.host.descriptor import Descriptor
from reconciler.model.host.signed_record import (
    RecordError,
    SignedRecord,
    insist_on_fields,
    is_text,
    mapping_of,
    signed_text,
    with_signature,
)
from reconciler.model.host.volume_record import VolumeRecord
from reconciler.model.ref import Ref
from tests.test_architecture import MODULES, word


def test_what_was_signed_is_what_is_checked() -> None:
    written = with_signature({"id": "abcdefghij", "size": 3}, text_digest)
    assert written == {
        "id": "abcdefghij",
        "size": 3,
        "hmac": digest({"id": "abcdefghij", "size": 3}),
    }
    record = SignedRecord(
        state_id="s",
        ref=Ref("storage", "vision", "data"),
        id="abcdefghij",
        signed=signed_text(written),
        hmac=str(written["hmac"]),
    )
    assert record.is_signed_by(text_digest)
    assert not record.is_signed_by(lambda text: text_digest(f"{text} "))


@pytest.mark.parametrize("told", [{}, {"id": "a", "more": "b"}, {"id": 3}, {"id": "a\nb"}])
def test_other_fields_and_other_values_are_no_record(told: dict[str, object]) -> None:
    with pytest.raises(RecordError):
        insist_on_fields(told, {"id": is_text}, "record")


@pytest.mark.parametrize("text", ["[]", '{"a": 1, "a": 2}', '{"a": 1.5}', '{"a": "\\u0007"}', "{"])
def test_what_is_not_read_the_same_by_everybody_is_no_record(text: str) -> None:
    with pytest.raises(RecordError):
        mapping_of(text)


def test_both_kinds_of_files_are_such_records() -> None:
    assert issubclass(Descriptor, SignedRecord)
    assert issubclass(VolumeRecord, SignedRecord)
    by_hand = re.compile(r"compare_digest|\"hmac\"|\bcontext\.sign\(")
    found = {word(path) for path in MODULES if by_hand.search(path.read_text(encoding="utf-8"))}
    assert found == {"model/host/signed_record"}
