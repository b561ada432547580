"""`gpuaas features`."""

from __future__ import annotations

from reconciler.cli.command import Reply, Session, command
from reconciler.cli.views import features as features_view
from reconciler.model.spec.features import FEATURES


@command("features", "text", "json")
def features(session: Session) -> Reply:
    """Show what this version can do, and what it does not support yet.

    MATURITY is implemented or designed. A designed feature is known to the schemas but not built:
    documents that use it are refused with the code shown.
    """
    result = [{"name": name, **features_view.row(one)} for name, one in FEATURES.items()]
    return Reply(result=result, lines=features_view.lines(FEATURES, width=session.screen.width))
