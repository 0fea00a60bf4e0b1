"""The questions of the page, each answered by an operation.

    api.answer("plane", "file=0&tensor=3&window=0,64,0,64")

A question is a name and parameters. Those about what takes long start a job, and are asked again
until it has finished. Nothing of a file is changed, and no file can be reached but those shown.

What answers them is imported while a browser fetches the page, so that the page is soon there.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import tensorferry
from tensorferry.errors import FerryError
from tensorferry.viewer.answers import Answer, of_json
from tensorferry.viewer.files import File
from tensorferry.viewer.queries import Query
from tensorferry.viewer.shown import Question, Shown


class Api:
    """Answers the questions of a page.

    Args:
        files: What is shown.
    """

    def __init__(self, files: Sequence[File]) -> None:
        self.shown = Shown(files)
        self._questions: dict[str, Question] = {
            "alive": lambda query: of_json({"alive": True}),
            "files": self.list_files,
            "info": self.info,
        }
        self._loading = threading.Lock()
        self._is_whole = False

    @property
    def names(self) -> list[str]:
        """The names of all questions."""
        self.prepare()
        return list(self._questions)

    def prepare(self) -> None:
        """Imports what answers the questions, once."""
        with self._loading:
            if self._is_whole:
                return
            from tensorferry.viewer.rows import RowQuestions
            from tensorferry.viewer.tensors import TensorQuestions

            self._questions |= TensorQuestions(self.shown).questions()
            self._questions |= RowQuestions(self.shown).questions()

            from tensorferry.viewer.comparing import PairQuestions
            from tensorferry.viewer.modelling import ModelQuestions

            self._questions |= PairQuestions(self.shown).questions()
            self._questions |= ModelQuestions(self.shown).questions()
            self._is_whole = True

    def answer(self, name: str, query: str) -> Answer:
        """The answer to a question; what went wrong is an answer, too."""
        found = self._questions.get(name)
        if found is None:
            self.prepare()
            found = self._questions.get(name)
        if found is None:
            return of_json({"error": "there is no such question"}, 404)
        try:
            return found(Query(query))
        except FerryError as error:
            return of_json({"error": error.message, "hint": error.hint, "where": error.path}, 422)
        except (OSError, MemoryError, IndexError, TypeError, ValueError) as error:
            return of_json({"error": f"{type(error).__name__}: {error}"[:500]}, 422)

    def close(self) -> None:
        """Ends all jobs, and closes the files."""
        self.shown.close()

    def list_files(self, query: Query) -> Answer:
        """The files, and what to do with two of them."""
        return of_json(
            {
                "version": tensorferry.__version__,
                "files": [file.summary() for file in self.shown.files],
            }
        )

    def info(self, query: Query) -> Answer:
        """What is in a file, without its tensors."""
        from tensorferry.operations import snippets
        from tensorferry.operations.cells import expand

        file = self.shown.file(query)
        with file.lock:
            info = file.info
            count = info.count
            if file.holds_rows:
                # Rows that are damaged are left out, which only those who read them know.
                with file.paging() as pages, file.reading() as subject:
                    pages.take([0])
                    count = subject.count()
        return of_json(
            {
                "path": info.path,
                "format": info.format,
                "holds": info.holds,
                "count": count,
                "files": info.files[:100],
                "file_count": len(info.files),
                "nbytes": info.nbytes,
                "version": info.version,
                "compression": info.compression,
                "metadata": expand(dict(info.metadata))[0],
                "problems": info.problems[:100],
                "notes": info.notes[:100],
                "dtypes": info.dtypes,
                "elements": info.elements,
                "tensors": len(info.tensors),
                "verified": file.is_verified,
                "copy": snippets.of_file(file.name),
            }
        )
