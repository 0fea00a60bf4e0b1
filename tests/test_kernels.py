"""Native loops over arrays, beside NumPy's, ml_dtypes' and TensorFlow's own answers."""

from __future__ import annotations

import json
import threading
from itertools import chain

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

from tensorferry import _native, kernels
from tensorferry.codecs import quantization
from tensorferry.codecs.quantization import Recipe, dequantize, quantize
from tensorferry.operations.measures import as_numbers

pytestmark = pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")

SMALL = ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]
DTYPES = [*map(np.dtype, "bhilBHIL?efd"), *(np.dtype(getattr(ml_dtypes, n)) for n in SMALL[1:])]


def dtype_of(name):
    """The NumPy dtype of a name."""
    return np.dtype(getattr(ml_dtypes, name, name))


def misaligned(array):
    """The same values at an odd address."""
    memory = np.empty(array.nbytes + 2, np.uint8)
    start = 1 - memory.ctypes.data % 2
    view = memory[start : start + array.nbytes].view(array.dtype)
    view[...] = array
    return view


def hard_floats(kind, dtype):
    """Every number of a small kind, the middles between neighbours, and their neighbours."""
    width = dtype_of(kind).itemsize
    every = np.arange(1 << 8 * width, dtype=f"u{width}").view(dtype_of(kind)).astype(np.float64)
    finite = np.unique(every[np.isfinite(every)])
    middles = (finite[:-1] + finite[1:]) / 2
    exact = np.concatenate([every, middles, finite[-1:] * 1.01, [1e300, 5e-324, 1e-46]])
    with np.errstate(over="ignore"):
        numbers = exact.astype(dtype)
        both = [np.nextafter(numbers, dtype(side)) for side in (np.inf, -np.inf)]
    return np.concatenate([numbers, *both])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", SMALL)
def test_casts_are_the_official_ones(kind, dtype):
    """Ties, subnormals, overflow and NaN become what NumPy and ml_dtypes make of them."""
    numbers = misaligned(hard_floats(kind, dtype))
    target = np.empty(numbers.size, dtype_of(kind))
    with np.errstate(all="ignore"):
        expected = numbers.astype(target.dtype)
    _native.quantize_floats(
        kernels.raw(numbers), np.dtype(dtype).name, kernels.raw(target), kind, False
    )

    assert target.tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("kind", SMALL)
def test_all_small_floats_come_back(kind, dtype):
    """Each of all 256 or 65,536 codes becomes the official number, NaNs bit by bit."""
    width = dtype_of(kind).itemsize
    codes = np.arange(1 << 8 * width, dtype=f"u{width}").view(dtype_of(kind))
    work = np.float64 if dtype == "float64" else np.float32
    with np.errstate(all="ignore"):
        wide = codes.astype(work)
        largest = float(ml_dtypes.finfo(dtype_of(dtype)).max)
        expected = np.where(np.isinf(wide), wide, np.clip(wide, -largest, largest))
        expected = (expected if kind == "bfloat16" else wide).astype(dtype_of(dtype))
    result = dequantize(codes, Recipe(kind, "cast", dtype))

    nan = np.isnan(expected.astype(np.float32))
    assert result[~nan].tobytes() == expected[~nan].tobytes()
    assert np.isnan(result.astype(np.float32))[nan].all()
    if dtype == "float32":
        assert result.tobytes() == wide.tobytes()


def test_casts_are_tensorflows():
    """TensorFlow casts float32 to the same bits."""
    tf = pytest.importorskip("tensorflow")
    for kind in SMALL:
        numbers = hard_floats(kind, np.float32)
        numbers = numbers[np.isfinite(numbers)]
        expected = tf.cast(tf.constant(numbers), kind).numpy()
        target = np.empty(numbers.size, dtype_of(kind))
        _native.quantize_floats(kernels.raw(numbers), "float32", kernels.raw(target), kind, False)
        differ = target.view(f"u{target.itemsize}") != expected.view(f"u{target.itemsize}")

        # TensorFlow flushes float32's subnormals, which only bfloat16 has as well.
        flushed = np.abs(numbers) < np.finfo(np.float32).tiny
        assert not (differ & ~flushed).any(), kind


def numpy_way(array, recipe):
    """Integers as NumPy makes them by a recipe, and what becomes of them again."""
    work = np.float64 if recipe.dtype == "float64" else np.float32
    shape = [-1 if n == recipe.axis else 1 for n in range(array.ndim)]
    scale = recipe.scale if recipe.axis is None else recipe.scale.reshape(shape)
    zero = recipe.zero_point.astype(work)
    zero = zero if recipe.axis is None else zero.reshape(shape)
    low, high = (-128, 127) if recipe.kind == "int8" else (0, 255)
    low += recipe.scheme == "symmetric"
    with np.errstate(all="ignore"):
        steps = np.rint(array.astype(work) / scale)
        steps[np.isnan(steps)] = 0
        values = np.clip(steps + zero, low, high).astype(recipe.kind)
        back = (values.astype(work) - zero) * scale
        largest = float(ml_dtypes.finfo(dtype_of(recipe.dtype)).max)
        return values, np.clip(back, -largest, largest).astype(dtype_of(recipe.dtype))


@settings(max_examples=60)
@given(
    array=hnp.arrays(
        st.sampled_from([np.float16, np.float32, np.float64]),
        hnp.array_shapes(min_dims=1, max_dims=3, max_side=40),
        elements=st.floats(width=16),
    ),
    kind=st.sampled_from(["int8", "uint8"]),
    scheme=st.sampled_from(["symmetric", "affine"]),
    axis=st.sampled_from([None, 0, -1]),
    layout=st.sampled_from(["C", "F", "reversed", "big-endian", "bfloat16"]),
)
def test_integers_are_numpys(array, kind, scheme, axis, layout):
    """Whatever the layout, byte order and axis: the integers and their inverse, bit by bit."""
    if layout == "bfloat16":
        array = array.astype(ml_dtypes.bfloat16)
    elif layout == "big-endian":
        array = array.astype(array.dtype.newbyteorder(">"))
    elif layout != "C":
        array = np.asfortranarray(array) if layout == "F" else array[..., ::-1]
    spec = {"kind": kind, "scheme": scheme, "axis": axis, "clip": True}
    result = quantize(array, spec)
    values, back = numpy_way(array.astype(array.dtype.newbyteorder("=")), result.recipe)

    assert result.values.tobytes() == values.tobytes()
    assert dequantize(result.values, result.recipe).tobytes() == back.tobytes()


def test_many_parts_are_numpys():
    """Arrays that several threads share, with scales for axes of all lengths."""
    generator = np.random.default_rng(0)
    array = generator.standard_normal((3, 700, 401), dtype=np.float32)
    for axis in (None, 0, 1, 2):
        result = quantize(array, {"kind": "int8", "axis": axis})
        values, back = numpy_way(array, result.recipe)
        exact = np.abs(array.astype(np.float64) - back)

        assert result.values.tobytes() == values.tobytes()
        assert result.report.largest_error == exact.max()
        assert result.report.mean_error == pytest.approx(exact.mean(), rel=1e-12)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_moments_are_numpys(dtype):
    """Range, mean, deviation, zeros, NaN and infinity of 300,000 numbers at an odd address."""
    generator = np.random.default_rng(1)
    raw = generator.integers(0, 256, 300_000 * dtype.itemsize, np.uint8)
    raw[: 64 * dtype.itemsize] = 0
    array = misaligned((raw % 2 if dtype.kind == "b" else raw).view(dtype))
    found = kernels.moments(array)
    numbers = as_numbers(array)
    with np.errstate(all="ignore"):
        finite = numbers[np.isfinite(numbers)]
        wide = finite.astype(np.float64)
        if dtype == np.float64:  # of the largest numbers, no sum is finite
            array = misaligned(array[np.abs(array) < 1e100])
            found, numbers = kernels.moments(array), array
            wide = finite = array[np.isfinite(array)]

    assert found.zeros == (numbers == 0).sum()
    assert found.nans == np.isnan(numbers).sum()
    assert found.infinities == np.isinf(numbers).sum()
    assert found.finite == finite.size
    assert (found.low, found.high) == (finite.min().item(), finite.max().item())
    scale = np.abs(wide).max()
    assert found.mean / scale == pytest.approx(wide.mean() / scale, rel=1e-9, abs=1e-12)
    deviation = np.sqrt(found.squares / found.finite)
    assert deviation / scale == pytest.approx(wide.std() / scale, rel=1e-9)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_comparing_is_numpys(dtype):
    """Count, first place and largest distance, within a tolerance."""
    generator = np.random.default_rng(2)
    raw = generator.integers(0, 2 if dtype.kind == "b" else 256, 150_000 * dtype.itemsize, np.uint8)
    left = misaligned(raw.view(dtype))
    right = left.copy()
    places = np.sort(generator.choice(left.size, 500, replace=False))
    right[places] = left[places[::-1]]
    one, two = (as_numbers(side).astype(np.float64) for side in (left, right))
    with np.errstate(all="ignore"):
        distance = np.abs(one - two)
        near = (
            (left == right) | (np.isnan(one) & np.isnan(two)) | (distance <= 3 + 0.1 * np.abs(two))
        )
    found = kernels.compare(left, right, rtol=0.1, atol=3.0)

    assert found.differing == (~near).sum()
    assert found.nonfinite == (~near & ~np.isfinite(distance)).sum()
    assert found.first == (None if near.all() else int(np.argmax(~near)))
    assert found.finite == np.isfinite(distance).sum()
    assert found.largest == pytest.approx(distance[np.isfinite(distance)].max(), rel=1e-15)
    same = kernels.compare(left, left)
    assert (same.differing, same.first, same.largest) == (0, None, 0.0)


def test_large_integers_differ():
    """Integers that are the same as floats are not the same."""
    found = kernels.compare(np.array([2**53, 5]), np.array([2**53 + 1, 5]))

    assert (found.differing, found.first, found.largest) == (1, 0, 1.0)


def test_nothing_at_all():
    """Empty arrays have no range, no difference and no values."""
    empty = np.empty(0, np.float32)

    assert kernels.moments(empty).finite == 0
    assert kernels.compare(empty, empty).first is None
    for kind in quantization.KINDS:
        for array in (empty, np.empty((0, 3), np.float64), np.empty((3, 0), np.float16)):
            axis = 0 if kind in ("int8", "uint8") else None
            result = quantize(array, {"kind": kind, "axis": axis})
            assert dequantize(result.values, result.recipe).shape == array.shape


def test_wrong_arguments_are_refused():
    """Sizes that do not fit, unknown types and read-only targets are errors, never a crash."""
    array, target = np.zeros(6, np.float32), np.zeros(6, np.int8)
    scale = np.ones(2, np.float32)
    steps = (True, 2, 3, scale, scale)
    good = ("float32", target, "int8")
    frozen = target.copy()
    frozen.flags.writeable = False
    attempts = [
        lambda: _native.moments_of(array, "float128"),
        lambda: _native.moments_of(array.view(np.uint8)[1:], "float32"),
        lambda: _native.moments_of(array[::2], "float32"),
        lambda: _native.compare_numbers(array, array[1:], "float32", 0, 0),
        lambda: _native.quantize_integers(array, "int32", target, "int8", *steps),
        lambda: _native.quantize_integers(array, "float32", target[1:], "int8", *steps),
        lambda: _native.quantize_integers(array, "float32", target, "int16", *steps),
        lambda: _native.quantize_integers(array, "float32", frozen, "int8", *steps),
        lambda: _native.quantize_integers(array, *good, True, 2, 0, scale, scale),
        lambda: _native.quantize_integers(array, *good, True, 2, 2**63, scale, scale),
        lambda: _native.quantize_integers(array, *good, True, 2**62, 4, scale, scale),
        lambda: _native.quantize_integers(array, *good, True, 3, 2, scale, scale),
        lambda: _native.quantize_integers(array, *good, True, 2, 3, scale, scale[1:]),
        lambda: _native.dequantize_integers(target, "int8", array, "float64", 2, 3, scale, scale),
        lambda: _native.quantize_ranges(array, "float32", 2, 3, scale, scale[1:]),
        lambda: _native.quantize_floats(array, "float32", target, "float16", True),
        lambda: _native.dequantize_floats(target, "int8", array, "float32"),
        lambda: _native.measure_strings([b"a"], np.zeros(1, np.int64), np.zeros(0, np.uint64)),
        lambda: _native.measure_strings(["a"], np.zeros(1, np.int64), np.zeros(1, np.uint64)),
        lambda: _native.count_bins(array, "float32", 0, 0.0, np.zeros(3, np.uint8)),
    ]
    for attempt in attempts:
        with pytest.raises((ValueError, TypeError, BufferError)):
            attempt()


def test_bins_of_hostile_numbers():
    """Numbers outside of all bins, however far, do not count."""
    counts = np.zeros(4, np.uint64)
    numbers = np.array([0, 1, 3.5, 4, -1e-9, 1e308, -1e308, np.inf, np.nan])
    kernels.count_bins(numbers, exponent=0, first=0, counts=counts)
    kernels.count_bins(numbers, exponent=-1074, first=-5, counts=np.zeros(3, np.uint64))

    assert counts.tolist() == [1, 1, 0, 1]


def test_arrays_that_change_meanwhile():
    """A result is made of old and new numbers, whatever another thread writes."""
    array = np.ones(1 << 20, np.float32)
    other = array.copy()
    stop = threading.Event()

    def change():
        while not stop.is_set():
            array[:] = np.nan
            array[:] = 3

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(10):
            found = kernels.moments(array)
            assert found.finite + found.nans == array.size
            assert kernels.compare(array, other).differing <= array.size
            result = quantize(array, {"kind": "int8", "clip": True})
            assert set(np.unique(result.values).tolist()) <= set(range(-127, 128))
    finally:
        stop.set()
        thread.join()


NUMBERS = st.one_of(
    st.floats(width=32).map(np.float32),
    st.floats().map(np.float64),
    st.floats(),
    st.integers(-(2**70), 2**70),
    st.integers(-(2**63), 2**63 - 1).map(np.int64),
    st.floats(width=16).map(np.float16),
)
VALUES = st.one_of(
    NUMBERS,
    st.none(),
    st.booleans(),
    st.text(),
    st.binary(),
    st.text(st.characters(max_codepoint=127)).map(str.encode),
    hnp.arrays(
        st.sampled_from(
            [np.float32, np.float64, np.int64, np.uint8, np.bool_, ">i4", np.complex64]
        ),
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
    ),
    st.lists(st.binary(max_size=4), max_size=3).map(lambda texts: np.array(texts, object)),
)


@settings(max_examples=300)
@given(st.lists(st.dictionaries(st.text(max_size=3), VALUES, max_size=4), max_size=3))
def test_lines_are_pythons(rows):
    """Rows become the text that Python's json makes of their plain values, one on a line."""
    from tensorferry.cli import documents

    assert list(chain.from_iterable(documents.lines(rows))) == [documents.line(row) for row in rows]


def test_digits_of_all_kinds():
    """Numbers of every magnitude have the digits of Python's repr and NumPy's float32."""
    from tensorferry.cli import documents

    generator = np.random.default_rng(3)
    bits = generator.integers(0, 2**32, 20_000, np.uint32)
    for numbers in (bits.view(np.float32), generator.integers(0, 2**63, 5000).view(np.float64)):
        ((line,),) = documents.lines([{"x": numbers}])
        assert line == documents.line({"x": numbers})
        assert len(json.loads(line)["x"]) == numbers.size
