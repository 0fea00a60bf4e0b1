"""Every error tensorferry raises on purpose.

    FerryError
    ├── FormatError (ValueError)                 the bytes are not what their format allows
    │   ├── UnknownFormatError                   no format recognises them, or none has that name
    │   ├── TruncatedError                       they end too early
    │   ├── ChecksumError                        they were changed since they were written
    │   └── LimitError                           they ask for more than `tensorferry.limits` allows
    ├── UnsupportedError (NotImplementedError)   a format or framework cannot carry the value
    │   └── OptionError (TypeError)              a format or function has no such option
    │       └── MissingDtypeError                raw bytes do not say their dtype, and nobody did
    ├── MissingExtraError (ImportError)          an optional dependency is not installed
    ├── MismatchError (ValueError)               weights that do not fit a model
    └── UnknownFeatureError (KeyError)           no feature of a schema has that name

Each says where (`path`, `offset`, `tensor`) and what to do next (`hint`), and survives pickling,
because workers send errors between processes. Its text is safe to print, whatever the file holds.
"""

from __future__ import annotations

from typing import Any, Self

from tensorferry.classes import dataclass
from tensorferry.display import clean, clean_lines, scrub, shown


class FerryError(Exception):
    """The base of all errors.

    Args:
        message: What was found and what was expected, in lower case and without a final period.
        path: The file, or another name for the source of the bytes. Passwords and the query of a
            URL are removed, here and in the texts.
        offset: The byte where the problem is.
        tensor: The name or place of the tensor inside a file or structure.
        hint: One thing to do next.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        offset: int | None = None,
        tensor: str | None = None,
        hint: str | None = None,
    ) -> None:
        # A hint may repeat the name that was given, and a message what a library says.
        message = scrub(message) if "://" in message else message
        super().__init__(message)
        self.message = message
        self.path = path and shown(path)
        self.offset = offset
        self.tensor = tensor
        self.hint = scrub(hint) if hint and "://" in hint else hint

    def __str__(self) -> str:
        place = ", ".join(
            part
            for part in (
                clean(self.path) if self.path else None,
                None if self.offset is None else f"byte {self.offset}",
                None if self.tensor is None else f"tensor {self.tensor!r}",
            )
            if part
        )
        message = clean_lines(self.message)
        text = f"{place}: {message}" if place else message
        return f"{text}\nhint: {clean(self.hint)}" if self.hint else text

    def __reduce__(self) -> tuple[Any, ...]:
        places = {
            "path": self.path,
            "offset": self.offset,
            "tensor": self.tensor,
            "hint": self.hint,
        }
        return _rebuild, (type(self), self.message, places)

    def located(self, *, path: str | None = None, tensor: str | None = None) -> Self:
        """The same error, with the locations that it lacks."""
        self.path = self.path or (path and shown(path))
        self.tensor = self.tensor or tensor
        return self


def _rebuild(kind: type[FerryError], message: str, places: dict[str, Any]) -> FerryError:
    return kind(message, **places)


class FormatError(FerryError, ValueError):
    """The bytes are not what their format allows."""


class UnknownFormatError(FormatError):
    """No format recognises the bytes, or no format has that name."""


class TruncatedError(FormatError):
    """The bytes end before what they announce."""


class ChecksumError(FormatError):
    """The bytes were changed since their checksum was written."""


class LimitError(FormatError):
    """The bytes ask for more than `tensorferry.limits` allows."""


class UnsupportedError(FerryError, NotImplementedError):
    """A format or framework cannot carry the value, or we cannot yet."""


class OptionError(UnsupportedError, TypeError):
    """A format or function has no option of that name, or the option is missing."""


class MissingDtypeError(OptionError):
    """Raw bytes cannot be read without a dtype."""


class MissingExtraError(FerryError, ImportError):
    """An optional dependency is not installed."""


class MismatchError(FerryError, ValueError):
    """Weights do not fit the model they are meant for.

    Args:
        message: As in `FerryError`.
        report: What fits and what does not: see `tensorferry.weights`.
        path: As in `FerryError`.
        offset: As in `FerryError`.
        tensor: As in `FerryError`.
        hint: As in `FerryError`.
    """

    def __init__(
        self,
        message: str,
        *,
        report: Any = None,
        path: str | None = None,
        offset: int | None = None,
        tensor: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, path=path, offset=offset, tensor=tensor, hint=hint)
        self.report = report

    def __reduce__(self) -> tuple[Any, ...]:
        rebuild, (kind, message, places) = super().__reduce__()
        return rebuild, (kind, message, {**places, "report": self.report})


class UnknownFeatureError(FerryError, KeyError):
    """A schema has no feature of that name."""


@dataclass(frozen=True)
class Problem:
    """Something that is wrong in a file: an error as a value, for reports.

    Attributes:
        problem: What is wrong.
        path: The file.
        record: The number of the record or row, counted from 0.
        offset: The byte in the decompressed file where the problem is.
        tensor: The tensor or column.
        hint: One thing to do next.
    """

    problem: str
    path: str | None = None
    record: int | None = None
    offset: int | None = None
    tensor: str | None = None
    hint: str | None = None

    def __str__(self) -> str:
        places = [
            self.path,
            None if self.record is None else f"record {self.record}",
            None if self.offset is None else f"byte {self.offset}",
            None if self.tensor is None else f"tensor {self.tensor!r}",
        ]
        place = ", ".join(part for part in places if part)
        return clean(f"{place}: {self.problem}" if place else self.problem)

    @classmethod
    def of(cls, error: FerryError, path: str | None = None) -> Problem:
        """The problem that an error describes."""
        return cls(
            error.message,
            path=error.path or (path and shown(path)),
            offset=error.offset,
            tensor=error.tensor,
            hint=error.hint,
        )
