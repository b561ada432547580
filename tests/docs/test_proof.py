"""What docs/proof.md says is proved is what the rules of a proof promise."""

from __future__ import annotations

from reconciler.planner.proof.rules import RULES
from tests.test_docs import DOCS, rows


def test_every_rule_of_a_proof_is_explained_in_its_order() -> None:
    """REL-02: no check without its meaning, and no promise that is not checked."""
    explained = rows(DOCS / "proof.md")
    assert explained == {rule.name: [rule.promises] for rule in RULES}
    assert list(explained) == [rule.name for rule in RULES]


def test_the_page_promises_no_more_than_was_done() -> None:
    """Isolation 9: what is deleted is called deleted, and no card is called reset."""
    page = (DOCS / "proof.md").read_text(encoding="utf-8")
    assert "Deleted is not erased" in page
    assert "A card is not reset" in page
