"""`ferry help`: what a command does."""

from __future__ import annotations

import click

from tensorferry.cli import options as shared, output


@click.command("help")
@click.argument("name", required=False, metavar="[COMMAND]")
@shared.as_json
@click.pass_context
def help_command(context: click.Context, name: str | None, as_json: bool) -> None:
    """The help of a command, as `ferry COMMAND --help` has it; without one, all commands."""
    root = context.find_root()
    found = root.command
    assert isinstance(found, click.Group)
    if name is None:
        text = root.get_help()
    else:
        _, command, _ = found.resolve_command(root, [name])
        assert command is not None
        text = command.get_help(click.Context(command, parent=root, info_name=name))
    if as_json:
        shared.echo_json("help", of=name, text=text)
    else:
        output.block(text)
