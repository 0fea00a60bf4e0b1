"""The questions of the page, each answered by an operation.

    api.answer("plane", "file=0&tensor=3&window=0,64,0,64")

A question is a name and parameters. Those about what takes long start a job, and are asked again
until it has finished. Nothing of a file is changed, and no file can be reached but those shown.

What answers most of them is imported behind the first list of tensors, so that the list is soon
there.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Mapping, Sequence

from tensorferry.errors import FerryError
from tensorferry.storage import cuts
from tensorferry.viewer.answers import Answer, of_json
from tensorferry.viewer.files import File
from tensorferry.viewer.listing import ListQuestions
from tensorferry.viewer.queries import Query
from tensorferry.viewer.shown import Question, Shown

Loader = Callable[[Shown], Mapping[str, Question]]


class Api:
    """Answers the questions of a page.

    Args:
        files: What is shown.
    """

    def __init__(self, files: Sequence[File]) -> None:
        self.shown = Shown(files)
        self._questions = dict(ListQuestions(self.shown).questions())
        self._loading = threading.Lock()
        self._loaders: list[Loader] = [_rows, _tensors, _pairs, _models]

    @property
    def names(self) -> list[str]:
        """The names of all questions."""
        self.prepare()
        return list(self._questions)

    def open(self) -> None:
        """Opens the files, which takes as long as a browser needs to fetch the page."""
        for file in self.shown.files:
            file.summary()

    def prepare(self) -> None:
        """Imports what answers the questions."""
        while self._load():
            pass

    def _load(self) -> bool:
        """Imports what answers some more questions; whether there were any."""
        with self._loading:
            if not self._loaders:
                return False
            self._questions |= self._loaders.pop(0)(self.shown)
            return True

    def answer(self, name: str, query: str) -> Answer:
        """The answer to a question; what went wrong is an answer, too."""
        while name not in self._questions and self._load():
            pass
        # Another thread may have loaded the last questions while this one waited for the lock.
        question = self._questions.get(name)
        if question is None:
            return of_json({"error": "there is no such question"}, 404)
        try:
            whole = cuts.pages()
            answer = question(Query(query))
            cuts.check(whole)
            if name == "tensors" and self._loaders:
                threading.Thread(target=self.prepare, daemon=True).start()
            return answer
        except FerryError as error:
            return of_json({"error": error.message, "hint": error.hint, "where": error.path}, 422)
        except (OSError, MemoryError, IndexError, TypeError, ValueError) as error:
            return of_json({"error": f"{type(error).__name__}: {error}"[:500]}, 422)
        except Exception as error:  # a bug of ours: the page goes on, and the terminal tells where
            traceback.print_exc()
            return of_json({"error": f"{type(error).__name__}: {error}"[:500]}, 500)

    def close(self) -> None:
        """Ends all jobs, and closes the files."""
        self.shown.close()


def _rows(shown: Shown) -> Mapping[str, Question]:
    from tensorferry.viewer.rows import RowQuestions

    return RowQuestions(shown).questions()


def _tensors(shown: Shown) -> Mapping[str, Question]:
    from tensorferry.viewer.tensors import TensorQuestions

    return TensorQuestions(shown).questions()


def _pairs(shown: Shown) -> Mapping[str, Question]:
    from tensorferry.viewer.comparing import PairQuestions

    return PairQuestions(shown).questions()


def _models(shown: Shown) -> Mapping[str, Question]:
    from tensorferry.viewer.modelling import ModelQuestions

    return ModelQuestions(shown).questions()
