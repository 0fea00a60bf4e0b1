"""`ferry view`: files in a browser."""

from __future__ import annotations

import sys
from typing import Any

import click

from tensorferry.cli import options as shared, output, text


@click.command("view")
@shared.paths
@click.option("--static", metavar="FILE", help="Write one HTML file to send to somebody instead.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="By default a free one.")
@click.option("--no-browser", is_flag=True, help="Only print the address.")
@click.option("--keep", is_flag=True, help="Go on when the page has been closed for long.")
@shared.reading
@shared.as_json
def view_command(
    paths: tuple[str, ...],
    static: str | None,
    port: int,
    no_browser: bool,
    keep: bool,
    format: str | None,
    options: dict[str, Any],
    as_json: bool,
) -> None:
    """Shows tensors, rows and models in a browser; two files are compared.

    The page is served on this machine only, at an address that nobody can guess. It ends with
    Ctrl-C, or half an hour after the page was closed.
    """
    from tensorferry.viewer.api import Api
    from tensorferry.viewer.opening import find_files

    if static is not None and (port or no_browser or keep):
        raise click.UsageError("--port, --no-browser and --keep are for a page that is served")
    files = find_files(paths, format=format, options=options)  # type: ignore[arg-type]
    if static is not None:
        from tensorferry.viewer.static import write

        report = write(Api(files), static)
        if as_json:
            shared.echo_json("view", static=report)
            return
        output.line(text.clean(f"{static}: {text.size(report.nbytes)}"))
        for line in report.left_out:
            output.line(text.paint(text.clean(f"left out: {line}"), "yellow"))
        return
    from tensorferry.storage import cuts
    from tensorferry.viewer.server import Server

    server = Server(Api(files), port=port, keep=keep)
    if as_json:
        shared.echo_json("view", url=server.url)
    else:
        output.block(f"{server.url}\nCtrl-C ends it.")
    sys.stdout.flush()
    if not no_browser:
        import webbrowser

        webbrowser.open(server.url)
    with cuts.noted():  # an answer that cannot be given does not end the page
        server.run()
