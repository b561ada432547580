"""`gpuaas completion`: shell completion of commands, options and choices."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from reconciler.cli.command import Reply, Session, command
from reconciler.model.problem import refuse


@command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(session: Session, shell: str) -> Reply:
    """Print the completion script of a shell.

    For bash: `gpuaas completion bash > ~/.local/share/bash-completion/completions/gpuaas`.
    For zsh, into a folder of $fpath as _gpuaas; for fish, into ~/.config/fish/completions.
    """
    maker = get_completion_class(shell)
    if maker is None:
        raise refuse("usage", f"no completion for {shell}")
    root = click.get_current_context().find_root().command
    return Reply(raw=maker(root, {}, "gpuaas", "_GPUAAS_COMPLETE").source())
