"""The user says which tensor is meant for which variable."""

from __future__ import annotations

import numpy as np
import pytest

import tensorferry as ferry


class TestMap:
    """The user says what variables are called."""

    def model(self):
        return {"dense": {"kernel": np.zeros((2, 3)), "bias": np.zeros(3)}}

    @property
    def file(self):
        return {"fc.weight": np.arange(6.0).reshape(3, 2), "fc.bias": np.ones(3)}

    def test_dict(self):
        """A dict gives names, and what to do with a tensor."""
        model = self.model()
        said = {"dense/kernel": ("fc.weight", "transpose"), "dense/bias": "fc/bias"}

        report = ferry.load_weights(model, self.file, map=said)

        assert set(report.how.values()) == {"map"}
        assert np.array_equal(model["dense"]["kernel"], self.file["fc.weight"].T)
        assert model["dense"]["bias"].tolist() == [1, 1, 1]

    def test_function(self):
        """A function is asked for each variable; None leaves it to the names."""
        model = self.model()

        def said(name):
            return ("fc.weight", (1, 0)) if name.endswith("kernel") else None

        ferry.load_weights(model, {**self.file, "dense.bias": np.full(3, 5.0)}, map=said)

        assert np.array_equal(model["dense"]["kernel"], self.file["fc.weight"].T)
        assert model["dense"]["bias"].tolist() == [5, 5, 5]

    def test_patterns(self):
        """Pairs of patterns and replacements are applied in turn."""
        model = {"layers": [{"w": np.zeros(2)}, {"w": np.zeros(2)}]}
        file = {"h0_w": np.full(2, 1.0), "h1_w": np.full(2, 2.0)}

        ferry.load_weights(model, file, map=[(r"layers/(\d+)", r"h\1"), ("/", "_")])

        assert [layer["w"].tolist() for layer in model["layers"]] == [[1, 1], [2, 2]]

    def test_one_tensor_for_several(self):
        """Functions of the array may take different parts of one tensor."""
        model = {"q": np.zeros(2), "k": np.zeros(2)}
        said = {
            "q": ("qk", lambda value: value[:2]),
            "k": ("qk", lambda value: value[2:]),
        }

        ferry.load_weights(model, {"qk": np.arange(4.0)}, map=said)

        assert model["k"].tolist() == [2, 3]

    def test_ends_of_names(self):
        """A variable may be named by the end of its name, where no other ends like that."""
        model = {"net": {"a": {"w": np.zeros(1)}, "b": {"w": np.zeros(1)}}}

        ferry.load_weights(model, {"x": np.ones(1)}, map={"b/w": "x"}, strict=False)

        assert model["net"]["b"]["w"] == 1
        with pytest.raises(ferry.MismatchError, match="does not have"):
            ferry.load_weights(model, {"x": np.ones(1)}, map={"w": "x"})

    def test_over_names(self):
        """What the map says goes before a tensor of the variable's name, which is left over."""
        model = {"a": np.zeros(1), "b": np.zeros(1)}

        report = ferry.load_weights(
            model, {"a": np.ones(1), "b": np.full(1, 2.0)}, map={"a": "b"}, strict=False
        )

        assert model["a"] == 2
        assert [one.name for one in report.missing] == ["b"]
        assert [one.name for one in report.unexpected] == ["a"]

    @pytest.mark.parametrize(
        ("said", "message"),
        [
            ({"dense/kernl": "fc.weight"}, "does not have\nhint: nearest is dense/kernel"),
            ({"dense/kernel": "fc.wight"}, "map says fc.wight, which is not there"),
            ({"dense/kernel": "fc.weight"}, r"expected float64 \[2, 3\], fc.weight is"),
            ({"dense/kernel": ("fc.weight", "flip")}, "expected 'transpose', axes or a function"),
            ({"dense/kernel": ("fc.weight", (0, 2))}, "are no axes"),
            ({"dense/kernel": ("fc.weight", np.ravel)}, r"its shape is \[6\] after the transform"),
        ],
    )
    def test_mistakes(self, said, message):
        """What the map gets wrong is said, and nothing is changed."""
        model = self.model()

        with pytest.raises(ferry.MismatchError, match=message):
            ferry.load_weights(model, self.file, map=said)

        assert not model["dense"]["kernel"].any()
