"""`ferry completion`: what a shell needs to complete commands and options."""

from __future__ import annotations

import click

from tensorferry.cli import options as shared, output


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@shared.as_json
def completion_command(shell: str, as_json: bool) -> None:
    """Prints a script for a shell: eval "$(ferry completion bash)"."""
    from click.shell_completion import get_completion_class

    from tensorferry.cli import shells
    from tensorferry.cli.application import application

    shells.register()
    found = get_completion_class(shell)
    assert found is not None
    source = found(application, {}, "ferry", "_FERRY_COMPLETE").source()
    if as_json:
        shared.echo_json("completion", shell=shell, script=source)
    else:
        output.block(source)
