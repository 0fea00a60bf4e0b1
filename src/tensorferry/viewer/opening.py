"""`tensorferry.view`: a page for files, from Python.

In a notebook, the result is shown as a frame below the cell. Elsewhere a browser opens.
"""

from __future__ import annotations

import html
import os
import sys
import threading
import webbrowser
from collections.abc import Mapping, Sequence
from typing import Any, Self, Unpack

from tensorferry.errors import UnsupportedError
from tensorferry.files import keywords
from tensorferry.files.find import Found, find, resolve
from tensorferry.storage import STANDARD_STREAM
from tensorferry.viewer.api import Api
from tensorferry.viewer.files import File
from tensorferry.viewer.server import GONE, Server

SHOWN = 200
"""How many files a page shows, at most."""


def find_files(
    paths: Sequence[Any],
    *,
    format: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    options: keywords.Opening | None = None,
) -> list[File]:
    """The files that some paths name.

    Raises:
        FileNotFoundError: One of the paths does not exist.
        FormatError: The only file cannot be opened.
        UnsupportedError: It is a stream, or there are too many.
    """
    found: list[Found] = []
    for path in paths:
        is_name = isinstance(path, str | os.PathLike)
        if is_name and os.fspath(path) == STANDARD_STREAM:
            raise UnsupportedError(
                "a page reads files more than once, which a stream does not allow",
                hint="save the stream as a file",
            )
        if is_name and format is None:
            found += find([path], options=storage_options)
        else:
            found.append(resolve(path, format=format, options=storage_options))
    if not found or len(found) > SHOWN:
        raise UnsupportedError(
            f"{len(found)} files to show, expected 1 to {SHOWN}",
            hint="name some of them",
        )
    files = [File(number, each, options or {}) for number, each in enumerate(found)]
    if len(files) == 1:
        files[0].check()
    return files


class View:
    """A served page; see `tensorferry.view`.

    Attributes:
        url: The address; anyone on this machine who knows it can see the files.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self.url = server.url
        self._thread = threading.Thread(target=server.run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the server, and closes the files."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"View({self.url!r})"

    def _repr_html_(self) -> str:
        """A frame with the page, for a notebook."""
        return (
            f'<iframe src="{html.escape(self.url)}" width="100%" height="640" '
            'style="border:1px solid #8884;border-radius:8px" title="tensorferry" '
            'allow="clipboard-write"></iframe>'
        )


@keywords.shown(keywords.Opening)
def view(
    *paths: Any,
    browser: bool | None = None,
    port: int = 0,
    keep: bool = True,
    format: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **options: Unpack[keywords.Opening],
) -> View:
    """Shows files in a browser: tensors, rows or a model; two files are compared.

        ferry.view("model.safetensors")
        ferry.view("before.npz", "after.npz")

    A thread of this process serves the page on loopback, at an address with a random token. In a
    notebook, the page appears in a frame below the cell.

    Args:
        *paths: Anything that `tensorferry.open` takes, except streams.
        browser: Open a browser; by default unless this is a notebook.
        port: The port; by default any free one.
        keep: Serve as long as the process runs, even after the page was closed.
        format: By default detected from the bytes.
        storage_options: Options for the store of a URL.
        **options: Options of the format: see `tensorferry.files.keywords.Opening`.

    Returns:
        The page: its `url`, and `close()`.

    Raises:
        FileNotFoundError: One of the paths does not exist.
        FormatError: The only file cannot be opened; with several files, the page shows the error.
        UnsupportedError: A path is a stream, or there are too many files.

    Examples:
        >>> saved = ferry.save({"w": np.zeros(3)}, "model.npz")
        >>> page = ferry.view("model.npz", browser=False)
        >>> page.close()
    """
    files = find_files(paths, format=format, storage_options=storage_options, options=options)
    in_notebook = "ipykernel" in sys.modules
    shown = View(Server(Api(files), port=port, frames=in_notebook, keep=keep, gone=GONE))
    if browser or (browser is None and not in_notebook):
        webbrowser.open(shown.url)
    return shown
