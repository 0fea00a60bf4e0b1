"""Weights of PyTorch's modules."""

from __future__ import annotations

import numpy as np
import pytest
from weights.conftest import FORMATS, values

import tensorferry as ferry


class TestTorch:
    """Modules of PyTorch, where it is installed."""

    @pytest.fixture
    def make(self):
        torch = pytest.importorskip("torch")

        class Tied(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.embedding = torch.nn.Embedding(5, 4)
                self.layers = torch.nn.Sequential(
                    torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 4)
                )
                self.head = torch.nn.Linear(4, 5, bias=False)
                self.head.weight = self.embedding.weight
                self.register_buffer("unsaved", torch.zeros(2), persistent=False)

            def forward(self, x):
                return self.head(self.layers(self.embedding(x)))

        return lambda: Tied().eval()

    @pytest.mark.parametrize("format", FORMATS)
    def test_round_trip(self, make, tmp_path, format):
        """A fresh module gives the same results, and the file has the names of state_dict."""
        import torch

        model, fresh, given = make(), make(), torch.arange(5)
        path = tmp_path / f"model.{format}"

        ferry.save_weights(model, path)
        report = ferry.load_weights(fresh, path)

        assert torch.equal(model(given), fresh(given))
        assert set(ferry.load(path)) == set(model.state_dict())
        assert report.ok
        assert not report.unexpected
        assert fresh.head.weight is fresh.embedding.weight
        assert fresh.head.weight.requires_grad
        again = make()
        again.load_state_dict(ferry.load(path, to="torch"))
        assert torch.equal(model(given), again(given))

    def test_strict_changes_nothing(self, make):
        """A load that fails leaves the module as it was."""
        model, fresh = make(), make()
        tensors = {f"module.{name}": part for name, part in model.state_dict().items()}
        before = values(fresh)
        last = "module.layers.2.weight"
        tensors[last] = tensors[last][:2]

        with pytest.raises(ferry.MismatchError, match=r"layers\.2\.weight: expected float32"):
            ferry.load_weights(fresh, tensors)
        assert values(fresh) == before

        tensors[last] = model.state_dict()[last.removeprefix("module.")]
        report = ferry.load_weights(fresh, tensors)
        assert set(report.how.values()) == {"prefix"}
        assert values(fresh) == values(model)

    def test_without_memory(self, make):
        """A module without memory or shapes is refused before anything is set."""
        import torch

        with pytest.raises(ferry.UnsupportedError, match=r"meta device: module.to_empty"):
            ferry.load_weights(torch.nn.Linear(2, 2, device="meta"), {"weight": np.zeros((2, 2))})
        with pytest.raises(ferry.UnsupportedError, match="no shape yet: call the module once"):
            ferry.load_weights(torch.nn.LazyLinear(2), {"weight": np.zeros((2, 2))})

    def test_from_tensorflows_names(self):
        """A kernel becomes a weight if the user says so."""
        torch = pytest.importorskip("torch")
        model = torch.nn.Linear(3, 2)
        file = {
            "dense/kernel": np.arange(6, dtype="f4").reshape(3, 2),
            "dense/bias": np.ones(2, "f4"),
        }

        ferry.load_weights(
            model, file, map={"weight": ("dense/kernel", "transpose"), "bias": "dense/bias"}
        )

        assert model.weight.tolist() == file["dense/kernel"].T.tolist()
