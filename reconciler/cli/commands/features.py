"""`gpuaas features`."""

from __future__ import annotations

from reconciler.cli.command import Reply, Session, command
from reconciler.cli.views import features as features_view
from reconciler.model.spec.features import FEATURES


@command("features", "text", "json")
def features(session: Session) -> Reply:
    """Show what this version does, and what it refuses until that is built.

    MATURITY is implemented or designed. What is designed stands in the schemas and has
    gates: documents that state one of them are refused, each with the code shown.
    """
    result = [{"name": name, **features_view.row(one)} for name, one in FEATURES.items()]
    return Reply(result=result, lines=features_view.lines(FEATURES, width=session.screen.width))
