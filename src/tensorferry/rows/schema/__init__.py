"""Schema: what features the Examples of a record file hold, and what columns they become.

An Example knows three kinds of lists (bytes, float32, int64) and no shapes; files do not say what
is in them. A schema does: for each feature its kind on the wire, the shape of one row's value, and
whether rows may lack it. A value of another dtype stands in a feature as one bytes value, a
serialized tensor: encoding "tensor". A schema is inferred from a survey of the records, given by
the user, or found in a file beside the data:

    our own JSON     {"version": 1, "features": [{"name": ..., "kind": ..., ...}], "frame": ...}
    features.json    of TensorFlow Datasets, `tensorferry.rows.schema.tfds`
    schema.pbtxt     of TensorFlow Metadata (TFMD), `tensorferry.rows.schema.tfmd`

What a `tf.io.parse_example` spec means is `tensorferry.rows.schema.tensorflow`. Reading the
records by a schema is left to `tensorferry.formats.tfrecord.example`.
"""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tensorferry import dtypes, storage
from tensorferry.budget import check_spread
from tensorferry.classes import NamedTuple, dataclass, field
from tensorferry.errors import (
    FerryError,
    FormatError,
    MissingExtraError,
    UnknownFeatureError,
    UnknownFormatError,
    UnsupportedError,
)
from tensorferry.rows.schema import json as schema_json
from tensorferry.rows.schema.feature import DTYPES, Encoding, Feature, Kind, Shape, make_feature
from tensorferry.storage import url
from tensorferry.storage.place import Place

SUFFIX = ".schema.json"
"""What the name of a file's own schema ends with, beside the file."""

__all__ = [
    "SUFFIX",
    "Encoding",
    "Feature",
    "FeatureStatistics",
    "Kind",
    "Schema",
    "Shape",
    "as_schema",
    "find_beside",
    "find_own",
    "find_remote",
    "from_tfds",
    "from_tfmd",
    "infer",
    "read",
    "remove_own",
]


@dataclass(frozen=True)
class Schema(Mapping[str, Feature]):
    """The features of the records, by name and in the order of names.

    Attributes:
        features: All of them.
        notes: What the source of the schema says that a schema cannot hold; ignored by comparisons.
        frame: The columns of the frame that was written, in Arrow's types, as plain data for JSON:
            see `tensorferry.rows.schema.arrow`; None without a frame. Ignored by comparisons.
    """

    features: tuple[Feature, ...] = ()
    notes: tuple[str, ...] = field(default=(), compare=False)
    frame: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)
    _by_name: dict[str, Feature] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_name: dict[str, Feature] = {}
        for feature in self.features:
            if feature.name in by_name:
                raise FormatError(
                    f"feature {feature.name!r} is there twice, expected once: in an Example, or in "
                    "a SequenceExample's context, or in its feature lists",
                    hint="read the records themselves with raw=True",
                )
            by_name[feature.name] = feature
        object.__setattr__(self, "_by_name", {name: by_name[name] for name in sorted(by_name)})
        object.__setattr__(self, "features", tuple(self._by_name.values()))

    def __getitem__(self, name: str) -> Feature:
        feature = self._by_name.get(name)
        if feature is None:
            near = difflib.get_close_matches(str(name), self._by_name, n=3)
            names = ", ".join(map(repr, near or list(self._by_name)[:10]))
            raise UnknownFeatureError(
                f"no feature is called {name!r}",
                hint=f"{'did you mean' if near else 'there are'} {names}" if names else None,
            )
        return feature

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    # Mapping's own would look for near matches of what is not there.
    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __hash__(self) -> int:
        return hash(self.features)

    def select(self, names: Iterable[str]) -> Schema:
        """The schema of some of the features.

        Raises:
            UnknownFeatureError: No feature has one of the names.
        """
        wanted = [names] if isinstance(names, str) else names
        return Schema(tuple({name: self[name] for name in wanted}.values()))

    def to_json(self) -> dict[str, Any]:
        """The schema as plain data for JSON: dicts, lists, strings and numbers."""
        return schema_json.to_tree(self.features, self.frame)

    @classmethod
    def from_json(cls, tree: Mapping[str, Any] | str | bytes) -> Schema:
        """The schema from what `to_json` gave, or from its JSON text.

        Raises:
            FormatError: There is no schema in it.
        """
        if isinstance(tree, str | bytes):
            tree = schema_json.parse(tree)
        return cls(schema_json.from_tree(tree), frame=schema_json.frame_of(tree))

    def to_tf_spec(self) -> str:
        """Python source of the spec with which `tf.io.parse_example` reads the records.

        With sequence features it is a dict of the two specs that `tf.io.parse_sequence_example`
        takes: pass it as `**spec`.
        """
        from tensorferry.rows.schema import tensorflow

        return tensorflow.to_spec(self)

    def to_tfmd(self) -> str:
        """The text of a TensorFlow Metadata schema, a `schema.pbtxt`."""
        from tensorferry.rows.schema import tfmd

        return tfmd.write(self.features)

    def to_arrow(self) -> Any:
        """The `pyarrow.Schema` of the columns.

        One value is int64, float32 or binary; a fixed number a FixedSizeList, one for each
        dimension; any number a list; a sequence a list of its steps. A serialized tensor of fixed
        shape is its number or an `arrow.fixed_shape_tensor` where Arrow has the dtype, and binary
        where not.

        Raises:
            FormatError: The names are made to slow PyArrow down.
            MissingExtraError: PyArrow is not installed.
        """
        try:
            import pyarrow as pa
        except ImportError:
            raise MissingExtraError(
                "an Arrow schema needs pyarrow, which is not installed",
                hint="pip install 'tensorferry[arrow]'",
            ) from None
        check_spread([feature.name for feature in self.features])
        return pa.schema(
            [pa.field(f.name, _to_arrow(f, pa), nullable=f.optional) for f in self.features]
        )


def _to_arrow(feature: Feature, pa: Any) -> Any:
    if math.prod(size for size in feature.shape if size) >= 2**31:
        raise UnsupportedError(
            f"feature {feature.name!r}: shape is {feature.shape}, and Arrow's lists of fixed size "
            "hold less than 2^31 values"
        )
    row = dtypes.BY_NAME[feature.dtype]
    if feature.encoding == "tensor":
        if feature.is_ragged:
            arrow = pa.list_(getattr(pa, row.arrow or "")())
        elif None in feature.shape or row.arrow is None or row is dtypes.STRING:
            arrow = pa.binary()
        else:
            arrow = getattr(pa, row.arrow)()
            arrow = pa.fixed_shape_tensor(arrow, feature.shape) if feature.shape else arrow
    else:
        arrow = getattr(pa, row.arrow or "")()
        for size in reversed(feature.shape):
            arrow = pa.list_(arrow, -1 if size is None else size)
    return pa.list_(arrow) if feature.sequence else arrow


class FeatureStatistics(NamedTuple):
    """What a survey of records found of one feature.

    Attributes:
        name: The key in the Examples.
        sequence: Whether it is one of a SequenceExample's feature lists.
        kind: The kind of its lists; None if it has no list at all.
        mixed: Whether its lists are of several kinds.
        rows: Number of records that have the feature.
        lists: Number of its lists: one for each record, or one for each step.
        shortest: The smallest number of values in a list.
        longest: The largest.
    """

    name: str
    sequence: bool
    kind: Kind | None
    mixed: bool
    rows: int
    lists: int
    shortest: int
    longest: int


def infer(
    statistics: Iterable[FeatureStatistics],
    rows: int,
    tensors: Mapping[str, tuple[str, Shape]] | None = None,
) -> Schema:
    """The schema that records follow, from a survey of them.

    A feature whose lists are all of one length has that fixed shape, a single value where the
    length is 1; lists that are all empty tell no length. A feature that was there but never held
    anything is left out.

    Args:
        statistics: What was found of each feature.
        rows: Number of records in the survey.
        tensors: The dtype and shape of the tensors in features whose values all were serialized
            tensors.

    Raises:
        FormatError: A feature has one kind in some records and another in others.
    """
    return Schema(
        tuple(
            _infer_feature(found, rows, (tensors or {}).get(found.name))
            for found in statistics
            if found.kind is not None or found.mixed
        )
    )


def _infer_feature(
    found: FeatureStatistics, rows: int, tensor: tuple[str, Shape] | None
) -> Feature:
    if found.mixed or found.kind is None:
        raise FormatError(
            f"feature {found.name!r} holds lists of several kinds in different records",
            hint="say which in schema=, or read the records themselves with raw=True",
        )
    encoding: Encoding = "plain"
    dtype, shape = DTYPES[found.kind], _shape_of(found)
    if tensor is not None and found.kind == "bytes" and shape == ():
        encoding, (dtype, shape) = "tensor", tensor
    optional = found.rows < rows
    return Feature(found.name, found.kind, shape, dtype, encoding, found.sequence, optional)


def _shape_of(found: FeatureStatistics) -> Shape:
    if found.shortest != found.longest or found.longest == 0:
        return (None,)
    return () if found.longest == 1 else (found.longest,)


def as_schema(given: Any) -> Schema:
    """The schema that a value stands for.

    Args:
        given: A schema; a dict of name to dtype, (dtype, shape), `Feature`, `tf.TensorSpec` or a
            feature of a `tf.io.parse_example` spec; the path of a `.pbtxt`, a `features.json` or
            our own JSON; or the dict that is in one of the latter. A dtype that Examples lack (all
            but int64, float32 and string) means serialized tensors.

    Raises:
        FormatError: It describes no features, or impossible ones.
        UnsupportedError: TensorFlow has no such dtype.
    """
    if isinstance(given, Schema):
        return given
    if isinstance(given, str | os.PathLike):
        return read(given)
    if not isinstance(given, Mapping):
        raise TypeError(
            f"a schema is a Schema, a dict of features or a path, not {type(given).__name__}"
        )
    try:
        return _from_tree(given)
    except UnknownFormatError:
        features = [part for name, spec in given.items() for part in _as_features(name, spec)]
        return Schema(tuple(dict.fromkeys(features)))


def _as_features(name: str, spec: Any) -> tuple[Feature, ...]:
    from tensorferry.rows.schema import tensorflow

    if isinstance(spec, Feature):
        if spec.name != name:
            raise FormatError(f"feature {spec.name!r} is given under the name {name!r}")
        return (spec,)
    if tensorflow.is_spec(spec):
        return tensorflow.from_spec(name, spec)
    dtype, shape = spec if isinstance(spec, tuple | list) and len(spec) == 2 else (spec, ())
    return (make_feature(name, dtype, shape),)


def read(path: str | os.PathLike[str]) -> Schema:
    """The schema in a file: a TFMD schema by its suffix `.pbtxt`, else one of the JSON kinds.

    Raises:
        FormatError: The file holds no schema.
    """
    data = Path(path).read_bytes()
    try:
        if os.fspath(path).endswith((".pbtxt", ".textproto", ".prototxt")):
            return from_tfmd(data)
        return _from_tree(schema_json.parse(data))
    except FerryError as error:
        raise error.located(path=os.fspath(path)) from None


def _from_tree(tree: Any) -> Schema:
    from tensorferry.rows.schema import tfds

    if schema_json.is_schema(tree):
        return Schema.from_json(tree)
    if tfds.is_features(tree):
        return Schema(*tfds.from_tree(tree))
    raise UnknownFormatError(
        'no schema: expected an object with "version" and "features", or one with '
        '"pythonClassName" as TensorFlow Datasets writes'
    )


def from_tfmd(text: str | bytes) -> Schema:
    """The schema in the text of a TensorFlow Metadata schema.

    Raises:
        FormatError: The text is no such schema.
    """
    from tensorferry.rows.schema import tfmd

    return Schema(*tfmd.read(text))


def from_tfds(text: str | bytes) -> Schema:
    """The schema of the Examples that TensorFlow Datasets writes for a `features.json`.

    Raises:
        FormatError: The text is no `features.json`.
    """
    from tensorferry.rows.schema import tfds

    return Schema(*tfds.from_tree(schema_json.parse(text)))


def find_beside(path: str | os.PathLike[str]) -> Schema | None:
    """The schema in a file beside a data file, or in the directory above.

    A JSON file of such a name that holds something else is passed over.

    Raises:
        FormatError: A schema's file is broken.
    """
    data = os.fspath(path)
    folder = os.path.dirname(data)
    names = ("schema.json", "features.json", "schema.pbtxt")
    folders = (folder, os.path.dirname(folder))
    candidates = [os.path.join(folder, name) for folder in folders for name in names]
    for candidate in (data + SUFFIX, *candidates):
        if not os.path.isfile(candidate):
            continue
        try:
            return read(candidate)
        except UnknownFormatError:
            continue
        except OSError as error:
            raise FormatError(f"cannot be read: {error.strerror}", path=candidate) from error
    return None


def find_own(place: Place) -> Schema | None:
    """The schema that a file has for itself, beside it.

    Raises:
        FormatError: The schema is broken.
    """
    if place.is_url:
        return find_remote(place)
    path = place.path + SUFFIX
    return read(path) if place.path != storage.STANDARD_STREAM and os.path.isfile(path) else None


def remove_own(paths: Iterable[str]) -> None:
    """Removes the schemas of local files that were replaced, if our own writers wrote them.

    A schema that a user wrote has neither the columns of a frame nor quantized features.
    """
    for name in (path + SUFFIX for path in paths if not storage.is_url(path)):
        if os.path.isfile(name):
            with suppress(FerryError, OSError):
                found = read(name)
                if found.frame is not None or any(one.quantized for one in found.features):
                    os.remove(name)


def find_remote(place: Place) -> Schema | None:
    """The schema that a file in a store has for itself, beside it.

    Raises:
        FormatError: The schema is broken.
    """
    path = url.extended(place.path, SUFFIX)
    if url.is_signed(place.path) or not storage.exists(path, options=place.options):
        return None
    with place.companion(path).reader() as source:
        try:
            return _from_tree(schema_json.parse(bytes(source.everything())))
        except FerryError as error:
            raise error.located(path=path) from None
