"""Contents: what records hold, Examples of a schema or some other bytes.

The schema is the one that was given, that of a file beside the data, or the one that the records
show (`tensorferry.formats.tfrecord.survey`). Looking for it may read the files, so it is done when
it is first asked for, and once for all rows of the same files.
"""

from __future__ import annotations

from contextlib import suppress

from tensorferry.codecs.quantization import KINDS
from tensorferry.errors import ChecksumError, FormatError, TruncatedError
from tensorferry.formats.tfrecord.files import INFER, RecordFiles
from tensorferry.formats.tfrecord.frames import OnError, Trail
from tensorferry.formats.tfrecord.options import RecordOptions
from tensorferry.formats.tfrecord.survey import Survey, survey
from tensorferry.rows import schema as schemas
from tensorferry.rows.rows import Damage
from tensorferry.rows.schema import Schema


class Contents:
    """What the records of some files hold.

    Args:
        files: The files.
        how: How they are read.
        damages: Takes what is skipped of a stream, which is read once.
        notes: Takes the reason why records are read as bytes.
    """

    def __init__(
        self, files: RecordFiles, how: RecordOptions, damages: list[Damage], notes: list[str]
    ) -> None:
        self._files = files
        self._how = how
        self._damages = damages
        self._notes = notes
        self._schema = None if how.schema is None else schemas.as_schema(how.schema)
        # None: the records have to be looked at first.
        self._raw = how.raw or (None if how.fallback and self._schema is None else False)
        self._asked_store = False  # for the schema beside a remote file

    @property
    def is_raw(self) -> bool:
        """Whether records are given as bytes: as asked for, or because they are no Examples.

        Without the option `fallback`, nobody looks whether they are.
        """
        if self._raw is None:
            self._raw = self._holds_no_examples()
        return self._raw

    def _holds_no_examples(self) -> bool:
        try:
            found = self.schema
            if not found and self._how.on_error != "raise" and not self._files.is_stream:
                # Records that are no Examples were passed over.
                with suppress(ChecksumError, TruncatedError):
                    self.find("first", "raise")
        except (ChecksumError, TruncatedError):
            raise
        except FormatError as error:
            self._notes.append(f"read as bytes: {error.message}")
            return True
        return False

    @property
    def schema(self) -> Schema:
        """All features of the records."""
        if self._schema is None:
            self._schema = self.find(self._how.infer, self._how.on_error)
        return self._schema

    def find(self, infer: str, on_error: OnError) -> Schema:
        """Looks for the schema beside the data, and else in the records.

        Args:
            infer: See `RecordOptions`.
            on_error: See `RecordOptions`.

        Raises:
            FormatError: A record is no Example, or damaged.
        """
        place = self._files.parts[0].place
        if not self._files.is_stream and place.is_named and not place.is_url:
            beside = schemas.find_beside(place.path)
            if beside is not None:
                return beside
        found = self._infer(infer, on_error)
        # Of a remote file, a schema is asked for only where the numbers alone say too little.
        if place.is_url and any(feature.dtype in KINDS for feature in found.values()):
            return schemas.find_remote(place) or found
        return found

    def _infer(self, infer: str, on_error: OnError) -> Schema:
        if infer == "all" and not self._files.is_stream:
            return self.survey(on_error).schema()
        # The damages of a stream are met once, those of files again when they are read.
        damages = self._damages if self._files.is_stream else None
        first = self._files.first(verify=self._how.verify, on_error=on_error, damages=damages)
        return survey(first, skip=on_error != "raise").schema()

    def survey(self, on_error: OnError | None = None) -> Survey:
        """What all records hold: see `tensorferry.formats.tfrecord.records.Records.survey`."""
        how = on_error or self._how.on_error
        segments = self._files.segments(
            lambda: INFER, verify=self._how.verify, on_error=how, damages=None
        )
        return survey(Trail().follow(segments), skip=how != "raise")

    @property
    def is_surveyed(self) -> bool:
        """Whether nobody has to look at all records to know their columns."""
        is_known = self._raw or self._schema is not None
        if is_known or self._how.infer == "first" or self._files.is_stream:
            return True
        place = self._files.parts[0].place
        is_local = place.is_named and not place.is_url
        return is_local and schemas.find_beside(place.path) is not None

    def settle(self, found: Survey | FormatError) -> None:
        """Takes what a survey in parts has found, or the first error in it.

        Raises:
            FormatError: The error, unless the records are then given as bytes.
        """
        try:
            if isinstance(found, FormatError):
                raise found
            self._schema = found.schema()
            self._raw = self._holds_no_examples()
        except (ChecksumError, TruncatedError):
            raise
        except FormatError as error:
            if not self._how.fallback:
                raise
            self._notes.append(f"read as bytes: {error.message}")
            self._raw = True

    @property
    def has_frame(self) -> bool:
        """Whether a frame was written, whose types the schema beside the file has.

        The schema of a remote file is asked for now: only Arrow's tables need it.
        """
        if self.is_raw:
            return False
        place = self._files.parts[0].place
        is_inferred = self._how.schema is None and not self._asked_store
        if place.is_url and is_inferred and self.schema.frame is None:
            self._asked_store = True
            self._schema = schemas.find_remote(place) or self._schema
        return self.schema.frame is not None
