from __future__ import annotations

import json
import tracemalloc

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp

from tensorferry.codecs import quantization
from tensorferry.codecs.quantization import Recipe, Spec, dequantize, parse, quantize
from tensorferry.errors import FormatError, UnsupportedError

CASTS = ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]
INTEGERS = [("int8", "symmetric"), ("int8", "affine"), ("uint8", "symmetric"), ("uint8", "affine")]
FLOATS = [np.float64, np.float32, np.float16, ml_dtypes.bfloat16]


@st.composite
def finite_arrays(draw, dtypes=(np.float32, np.float64, np.float16), max_dims=3):
    """Arrays of finite numbers, of all layouts."""
    dtype = np.dtype(draw(st.sampled_from(dtypes)))
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=max_dims, min_side=0, max_side=5))
    bound = draw(st.sampled_from([1.0, 100.0, float(np.finfo(dtype).max)]))
    numbers = st.floats(-bound, bound, width=8 * dtype.itemsize)
    array = draw(hnp.arrays(dtype, shape, elements=numbers))
    return (
        draw(st.sampled_from([array, array.T, np.asfortranarray(array), array[..., ::-1]]))
        if (array.ndim)
        else array
    )


def errors(array, result):
    """The absolute errors of finite elements, in float64."""
    exact = array.astype(np.float64)
    finite = np.isfinite(exact)
    return np.abs(exact[finite] - result.astype(np.float64)[finite])


@pytest.mark.parametrize(("kind", "scheme"), INTEGERS)
@given(array=finite_arrays(), per_channel=st.booleans())
def test_integers_are_within_half_a_step(kind, scheme, array, per_channel):
    """No element is further off than half a scale (and the rounding of the arithmetic itself)."""
    axis = array.ndim - 1 if per_channel and array.ndim else None
    result = quantize(array, {"kind": kind, "scheme": scheme, "axis": axis})
    back = dequantize(result.values, result.recipe)

    assert (back.dtype, back.shape) == (array.dtype, array.shape)
    assert (result.values.dtype, result.values.shape) == (np.dtype(kind), array.shape)
    scale = result.recipe.scale.astype(np.float64)
    error = np.abs(array.astype(np.float64) - back.astype(np.float64))
    info = np.finfo(array.dtype)
    rounding = 2 * info.eps * np.abs(array.astype(np.float64)) + info.smallest_subnormal
    assert (error <= scale * 0.50002 + rounding).all()


@pytest.mark.parametrize(("kind", "scheme"), INTEGERS)
@given(array=finite_arrays(max_dims=2))
def test_zeros_stay_zeros(kind, scheme, array):
    """Padding and masks survive; a negative zero becomes a plain one."""
    result = quantize(array, Spec(kind, scheme))
    back = dequantize(result.values, result.recipe)

    assert (back[array == 0] == 0).all()
    assert not np.signbit(back[array == 0]).any()


@given(array=finite_arrays(max_dims=2), integer=st.sampled_from(INTEGERS))
def test_channels_have_smaller_steps(array, integer):
    """A channel's own scale bounds its error at least as well as the tensor's."""
    if array.ndim == 0:
        return
    whole = quantize(array, Spec(*integer))
    each = quantize(array, Spec(*integer, axis=-1))

    live = each.recipe.scale[np.any(array != 0, axis=tuple(range(array.ndim - 1)))]
    assert (live <= whole.recipe.scale).all()
    limit = float(whole.recipe.scale) / 2 * 1.0001
    largest = np.abs(array.astype(np.float64)).max(initial=0)
    assert each.report.largest_error <= limit + 2 * np.finfo(array.dtype).eps * largest


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kind", CASTS)
def test_casts_are_those_of_ml_dtypes(kind, dtype):
    """All values of 16 bits, cut to the kind's range: the same bits as `astype`."""
    bits = np.arange(1 << 16, dtype=np.uint16)
    every = bits.view(dtype if dtype == ml_dtypes.bfloat16 else np.float16)
    numbers = np.array(every.tolist())
    array = np.array([*numbers[~np.isnan(numbers)], np.nan], dtype)
    fitting = array[~(np.abs(array.astype(np.float64)) > float(ml_dtypes.finfo(kind).max))]
    result = quantize(fitting, kind)

    expected = fitting.astype(getattr(ml_dtypes, kind, np.float16))
    assert result.values.tobytes() == expected.tobytes()
    assert result.report.clipped == 0
    back = dequantize(result.values, result.recipe).astype(np.float64)
    largest = float(ml_dtypes.finfo(dtype).max)
    np.testing.assert_array_equal(back, np.clip(expected.astype(np.float64), -largest, largest))


@given(
    array=hnp.arrays(
        np.float32,
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5),
        elements=st.floats(width=32),
    ),
    kind=st.sampled_from(quantization.KINDS),
)
def test_reports_are_true(array, kind):
    """What a report says is what comparing gives, whatever is in the tensor."""
    result = quantize(array, {"kind": kind, "clip": True})
    back = dequantize(result.values, result.recipe)
    error = errors(array, back)
    report = result.report

    assert report.nbytes_before == array.nbytes
    assert report.nbytes_after == result.values.nbytes + result.recipe.nbytes
    assert report.largest_error == error.max(initial=0)
    assert report.mean_error == pytest.approx(
        error.mean() if error.size else 0, rel=1e-9, abs=1e-300
    )
    assert report.nans == np.isnan(array).sum()
    assert report.infinities == np.isinf(array).sum()
    assert np.isfinite(back[np.isfinite(array)]).all()
    magnitude = np.abs(array[np.isfinite(array)]).max(initial=0)
    if magnitude:
        assert report.relative_error == pytest.approx(report.largest_error / float(magnitude))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize(("kind", "scheme"), INTEGERS)
def test_values_are_those_of_numpy(kind, scheme, dtype):
    """Also where one of several parts holds NaN, which is done anew, and behind whole blocks."""
    low, high = np.iinfo(kind).min + (scheme == "symmetric"), np.iinfo(kind).max
    array = np.random.default_rng(7).normal(0.3, 2.0, 3 * 65536 + 77).astype(dtype)
    array[70_000], array[70_001], array[-1] = np.nan, np.inf, -np.inf
    quantized = quantize(array, {"kind": kind, "scheme": scheme, "clip": True})
    work = np.float64 if dtype is np.float64 else np.float32
    finite = np.where(np.isfinite(array), array, 0).astype(work)
    least, most = float(finite.min()), float(finite.max())
    if scheme == "symmetric":
        scale, zero = max(-least, most) / 127, (low + high) // 2
    else:
        scale = most / 255 - least / 255
        zero = min(max(round(low - least / float(work(scale))), low), high)
    assert quantized.recipe.scale == work(scale)
    assert quantized.recipe.zero_point == zero
    steps = np.clip(
        np.nan_to_num(array.astype(work), posinf=1e30, neginf=-1e30) / work(scale), -1024, 1024
    )
    expected = np.clip(np.rint(steps) + zero, low, high).astype(kind)
    assert np.array_equal(quantized.values, expected)
    found = errors(array, dequantize(quantized.values, quantized.recipe))
    assert quantized.report.largest_error == pytest.approx(found.max())
    assert quantized.report.mean_error == pytest.approx(found.mean())
    assert (quantized.report.nans, quantized.report.infinities) == (1, 2)


def test_chunks_cover_everything(monkeypatch):
    """The size of the chunks changes nothing."""
    array = np.random.default_rng(0).standard_normal((5, 7, 3)).astype(np.float32)
    for spec in ("bfloat16", "int8", {"kind": "uint8", "axis": 1}, {"kind": "int8", "axis": 0}):
        whole = quantize(array, spec)
        for size in (1, 2, 3, 10, 25, 1000):
            monkeypatch.setattr(quantization, "CHUNK", size)
            part = quantize(array, spec)
            assert part.values.tobytes() == whole.values.tobytes()
            assert part.recipe.to_json() == whole.recipe.to_json()
            assert part.report.largest_error == whole.report.largest_error
            assert dequantize(part.values, part.recipe).dtype == np.float32
        monkeypatch.undo()


def test_memory_is_bounded():
    """Beyond the input and the output a few chunks are in memory, also for strided input."""
    array = np.ones((2000, 4000), np.float32)[:, ::2]
    for spec in ("float16", {"kind": "int8", "axis": 1}):
        tracemalloc.start()
        result = quantize(array, spec)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < result.values.nbytes + (6 << 20)


def test_tensorflow_rounds_alike(tf):
    """Affine uint8 is what TensorFlow's fake quantization gives, but for ties."""
    rng = np.random.default_rng(0)
    for low, high in [(-1.0, 1.0), (-0.3, 2.0), (0.0, 5.0), (-7.0, 0.0)]:
        array = rng.uniform(low, high, 1000).astype(np.float32)
        array[:2] = low, high
        result = quantize(array, {"kind": "uint8", "scheme": "affine"})
        theirs = tf.quantization.fake_quant_with_min_max_args(array, low, high).numpy()
        difference = np.abs(dequantize(result.values, result.recipe) - theirs)

        scale = float(result.recipe.scale)
        assert (difference < 1e-5).mean() > 0.99
        assert difference.max() < scale * 1.001


@pytest.mark.parametrize("kind", ["int8", "uint8"])
def test_integers_have_no_nan_and_no_infinity(kind):
    """They are refused and counted; clipped, NaN is zero and infinity the largest."""
    array = np.array([1.0, np.nan, np.inf, -np.inf, -2.0, np.nan], np.float32)
    with pytest.raises(UnsupportedError, match="2 elements are NaN and 2 infinite") as caught:
        quantize(array, kind)
    assert '"clip": True' in str(caught.value)
    result = quantize(array, {"kind": kind, "clip": True, "scheme": "symmetric"})

    assert dequantize(result.values, result.recipe) == pytest.approx([1, 0, 2, -2, -2, 0], abs=0.01)
    assert (result.report.nans, result.report.infinities, result.report.clipped) == (2, 2, 4)


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float8_e5m2"])
def test_floats_keep_nan_and_infinity(kind):
    """Casts to kinds that have both."""
    array = np.array([np.nan, np.inf, -np.inf, -0.0], np.float32)
    result = quantize(array, kind)
    back = dequantize(result.values, result.recipe)

    np.testing.assert_array_equal(back, array)
    assert np.signbit(back[3])
    assert result.report.clipped == 0


def test_float8_e4m3fn_has_no_infinity():
    """Infinity is refused, or becomes the largest; NaN stays."""
    array = np.array([np.nan, np.inf, -np.inf, 1], np.float32)
    with pytest.raises(UnsupportedError, match="2 elements lie beyond 448"):
        quantize(array, "float8_e4m3fn")
    result = quantize(array, {"kind": "float8_e4m3fn", "clip": True})

    back = dequantize(result.values, result.recipe)
    np.testing.assert_array_equal(back, [np.nan, 448, -448, 1])
    assert result.report.clipped == 2


@pytest.mark.parametrize(
    ("kind", "value", "largest"),
    [
        ("float16", 1e5, 65504),
        ("float16", 65520, 65504),
        ("float8_e4m3fn", 1000, 448),
        ("float8_e5m2", -1e5, -57344),
        ("bfloat16", np.finfo(np.float32).max, float(ml_dtypes.finfo("bfloat16").max)),
    ],
)
def test_what_is_too_large_does_not_become_infinite(kind, value, largest):
    """It is refused, or becomes the largest of its kind, and that is an error like others."""
    array = np.array([value, np.inf if kind != "float8_e4m3fn" else 1], np.float32)
    with pytest.raises(UnsupportedError, match="1 elements lie beyond"):
        quantize(array, kind)
    result = quantize(array, {"kind": kind, "clip": True})

    assert dequantize(result.values, result.recipe).tolist() == [largest, array[1]]
    assert result.report.clipped == 1
    assert result.report.largest_error == abs(float(array[0]) - largest)


def test_the_largest_float16_survives_bfloat16():
    """It rounds to a number that float16 does not have, and comes back."""
    array = np.array([65504, -65504, np.inf], np.float16)
    result = quantize(array, "bfloat16")

    np.testing.assert_array_equal(dequantize(result.values, result.recipe), array)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("kind", "scheme"), INTEGERS)
def test_extremes(kind, scheme, dtype):
    """The widest range, the smallest numbers, constants and nothing at all."""
    info = ml_dtypes.finfo(dtype)
    for numbers in (
        [info.max, -info.max, 1],
        [info.smallest_subnormal, 0],
        [-info.smallest_subnormal] * 3,
        [info.tiny, info.tiny * 5],
        [7.0] * 4,
        [-7.0] * 4,
        [0.0, -0.0],
        [],
    ):
        array = np.array(numbers, dtype)
        result = quantize(array, Spec(kind, scheme))
        back = dequantize(result.values, result.recipe)

        assert np.isfinite(back.astype(np.float64)).all()
        assert result.recipe.scale > 0
        error = np.abs(array.astype(np.float64) / 2 - back.astype(np.float64) / 2)
        slack = 2 * float(info.eps) * np.abs(array.astype(np.float64))
        assert (error <= float(result.recipe.scale) * 0.26 + slack).all()


def test_scalars_and_empty_tensors():
    """Shapes stay as they are."""
    for shape in [(), (0,), (3, 0), (0, 3)]:
        for spec in ("float16", "int8", "uint8"):
            result = quantize(np.ones(shape, np.float32), spec)
            assert dequantize(result.values, result.recipe).shape == shape
    result = quantize(np.zeros((0, 3), np.float32), {"kind": "int8", "axis": 1})
    assert result.recipe.scale.tolist() == [1, 1, 1]
    assert quantize(np.zeros((0, 3)), {"kind": "int8", "axis": 0}).recipe.scale.shape == (0,)


def test_channels_of_zeros():
    """They have a scale that is a number, and stay zeros."""
    array = np.array([[0, 0], [1, -2]], np.float32)
    result = quantize(array, {"kind": "int8", "axis": 0})

    assert result.recipe.scale[0] == 1
    assert dequantize(result.values, result.recipe)[0].tolist() == [0, 0]


def test_other_byte_orders():
    """A big-endian array gives the values of a native one."""
    array = np.array([1.5, -2.0], ">f4")
    for kind in quantization.KINDS:
        expected = quantize(array.astype("<f4"), kind)
        result = quantize(array, kind)
        assert result.values.tobytes() == expected.values.tobytes()


@pytest.mark.parametrize("dtype", ["int32", "complex64", "bool", "float8_e5m2", "O"])
def test_other_dtypes_are_refused(dtype):
    """Only floating-point numbers of 16 bits and more are quantized."""
    array = np.zeros(2, getattr(ml_dtypes, dtype, dtype))
    with pytest.raises(UnsupportedError, match="cannot be quantized"):
        quantize(array, "int8")


def test_the_bound():
    """An error beyond the bound is refused, naming what was found and what would do."""
    array = np.linspace(-1, 1, 1001, dtype=np.float32)
    found = quantize(array, "int8").report.largest_error
    assert quantize(array, ("int8", found)).report.largest_error == found
    with pytest.raises(UnsupportedError, match=r"largest error of int8 is 0\.0039") as caught:
        quantize(array, ("int8", 0.0005))
    assert "exact enough are float16 (" in str(caught.value)
    assert "bfloat16" not in str(caught.value)
    with pytest.raises(UnsupportedError, match="no kind is that exact"):
        quantize(array, ("float16", 0))


def test_parse():
    """Every way of saying what is wanted."""
    assert parse("int8") == Spec("int8", "symmetric")
    assert parse("uint8") == Spec("uint8", "affine")
    assert parse(("float16", 0.5)) == Spec("float16", "cast", max_error=0.5)
    assert parse({"kind": "int8", "axis": 0}) == Spec("int8", "symmetric", 0)
    assert parse(Spec("int8")) == Spec("int8")
    for wrong in (
        "int4",
        7,
        (),
        ("int8",),
        {"axis": 0},
        {"kind": "int8", "bits": 4},
        {"kind": "int8", "scheme": "cast"},
        {"kind": "float16", "scheme": "affine"},
        {"kind": "float16", "axis": 0},
        {"kind": "int8", "axis": True},
        {"kind": "int8", "clip": 1},
        ("int8", -1),
        ("int8", float("nan")),
        ("int8", "a"),
    ):
        with pytest.raises(UnsupportedError):
            parse(wrong)
    with pytest.raises(UnsupportedError, match="axis is 2, the tensor has 2 dimensions"):
        quantize(np.zeros((1, 1)), {"kind": "int8", "axis": 2})


@given(array=finite_arrays(), spec=st.sampled_from([*CASTS[:2], *INTEGERS]), axis=st.booleans())
def test_recipes_survive_json(array, spec, axis):
    """A recipe through JSON's text gives the same bits back."""
    wanted = Spec(spec, clip=True) if isinstance(spec, str) else Spec(*spec)
    if axis and array.ndim and not isinstance(spec, str):
        wanted = Spec(*spec, axis=-1)
    result = quantize(array, wanted)
    text = json.dumps(result.recipe.to_json(), allow_nan=False)
    recipe = Recipe.from_json(json.loads(text), shape=array.shape)

    assert recipe.to_json() == result.recipe.to_json()
    expected = dequantize(result.values, result.recipe)
    assert dequantize(result.values, recipe).tobytes() == expected.tobytes()


GOOD = {
    "kind": "int8",
    "scheme": "affine",
    "dtype": "float32",
    "axis": 0,
    "scale": [0.5, 0.25],
    "zero_point": [0, -3],
}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("kind", "int4"),
        ("kind", None),
        ("kind", ["int8"]),
        ("kind", "float16"),
        ("scheme", "cast"),
        ("scheme", "linear"),
        ("dtype", "int32"),
        ("dtype", "object"),
        ("dtype", {}),
        ("axis", -1),
        ("axis", True),
        ("axis", 1.0),
        ("axis", 1),
        ("axis", None),
        ("axis", 1 << 80),
        ("scale", [0.5]),
        ("scale", [0.5, 0.25, 0.1]),
        ("scale", 0.5),
        ("scale", [0.5, 0.0]),
        ("scale", [0.5, -0.25]),
        ("scale", [0.5, float("nan")]),
        ("scale", [0.5, float("inf")]),
        ("scale", [0.5, 1e300]),
        ("scale", [0.5, 1e-300]),
        ("scale", [0.5, 0.1]),
        ("scale", [0.5, True]),
        ("scale", [0.5, "1"]),
        ("scale", [0.5, None]),
        ("scale", [0.5, 10**400]),
        ("scale", [[0.5], [0.25]]),
        ("zero_point", [0]),
        ("zero_point", [0, 128]),
        ("zero_point", [0, -129]),
        ("zero_point", [0, 0.0]),
        ("zero_point", [0, False]),
        ("zero_point", 0),
        ("zero_point", None),
        ("more", 1),
    ],
)
def test_recipes_that_lie(key, value):
    """A recipe is from a file: everything in it is held against what it can be."""
    Recipe.from_json(GOOD, shape=(2,))
    with pytest.raises(FormatError, match="recipe"):
        Recipe.from_json({**GOOD, key: value}, shape=(2,))


def test_recipes_that_lack_something():
    """No key has a silent default, and symmetric recipes have no other zero."""
    for key in GOOD:
        with pytest.raises(FormatError, match="recipe"):
            Recipe.from_json({name: value for name, value in GOOD.items() if name != key})
    for plain in (None, [], "int8", 1):
        with pytest.raises(FormatError, match="expected a dict"):
            Recipe.from_json(plain)
    with pytest.raises(FormatError, match="expected integers from 0 to 0"):
        Recipe.from_json({**GOOD, "scheme": "symmetric"})


def test_values_that_are_not_the_recipes():
    """Dtype and shape are held against the recipe."""
    recipe = Recipe.from_json(GOOD)
    assert dequantize(np.array([2, 1], np.int8), recipe).tolist() == [1.0, 1.0]
    for values in (np.zeros(2, np.uint8), np.zeros(3, np.int8), np.zeros((), np.int8)):
        with pytest.raises(FormatError, match="values"):
            dequantize(values, recipe)
