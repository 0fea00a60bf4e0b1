"""What is shown: the files and the jobs that all questions share."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from tensorferry.errors import UnsupportedError
from tensorferry.viewer.answers import Answer
from tensorferry.viewer.files import File
from tensorferry.viewer.jobs import Jobs
from tensorferry.viewer.queries import Query

Question = Callable[[Query], Answer]

_STRANGE = re.compile(r"[^A-Za-z0-9._-]+")


class Shown:
    """The files of a page.

    Args:
        files: In the order in which they were named.
    """

    def __init__(self, files: Sequence[File]) -> None:
        self.files = list(files)
        self.jobs = Jobs(self._check_sizes)

    def file(self, query: Query, name: str = "file") -> File:
        """The file that a question is about.

        Raises:
            UnsupportedError: There is no such file.
        """
        number = query.number(name, 0)
        if number >= len(self.files):
            raise UnsupportedError(f"file {number} of {len(self.files)}")
        return self.files[number]

    def _check_sizes(self) -> None:
        for file in self.files:
            file.check_sizes()

    def close(self) -> None:
        """Ends all jobs, and closes the files."""
        self.jobs.end()
        for file in self.files:
            file.close()


def safe_name(name: str, suffix: str) -> str:
    """A name of a file that means nothing to a shell or a path."""
    return (
        f"{_STRANGE.sub('_', name.rpartition('/')[2] or name)[-80:].strip('.') or 'file'}.{suffix}"
    )
