"""The structure of each main screen: what is on it, in which order, and where from left to right.

    FERRY_STRUCTURE=write python -m pytest tests/view/test_structure.py

writes the files under structure/ anew: look at the difference before you keep it. The places of
large parts are in sixths of the window, so that another font changes nothing.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT
from savedmodels import save_module

import tensorferry as ferry

STORED = Path(__file__).parent / "structure"

OUTLINE = """() => {
  const wanted = 'h1, h2, h3, nav, main, aside, dl.facts, canvas, table, svg, select, input, ' +
    '[role=tree], [role=grid], [role=table], [role=alert], [role=radiogroup], [role=tablist], ' +
    '.legend, .list, button';
  const found = [];
  for (const one of document.querySelectorAll(wanted)) {
    const box = one.getBoundingClientRect();
    if (!box.width || !box.height || one.closest('[aria-hidden=true]')) continue;
    const kind = one.getAttribute('role') ?? one.tagName.toLowerCase();
    const label = one.getAttribute('aria-label') ?? (/^h[1-3]$/.test(kind) ? one.textContent : '');
    const sixth = number => Math.round(number / innerWidth * 6);
    const place = box.width * 4 < innerWidth ? '' : ` @${sixth(box.left)}+${sixth(box.width)}`;
    found.push(`${kind} ${label.trim().slice(0, 60)}`.trim() + place);
  }
  return found.filter((line, place) => line !== found[place - 1]);
}"""


@pytest.fixture(scope="module")
def screens(tmp_path_factory):
    """The files and the address of each main screen."""
    folder = tmp_path_factory.mktemp("screens")
    rng = np.random.default_rng(7)
    tensors = {f"layers.{n}.weight": rng.standard_normal((8, 6)) for n in range(4)}
    ferry.save(tensors, folder / "a.safetensors")
    moved = dict(tensors)
    moved["layers.2.weight"] = moved["layers.2.weight"] + 0.5
    ferry.save(moved, folder / "b.safetensors")
    with ferry.writer(folder / "rows.tfrecord", durable=False) as out:
        texts = np.array([b"row %d" % n for n in range(200)], object)
        out.write_batch({"id": np.arange(200), "text": texts})
    weights = [folder / "a.safetensors"]
    return {
        "weights": (weights, "#/"),
        "tensor": (weights, "#/0/tensor/~2"),
        "statistics": (weights, "#/0/statistics"),
        "rows": ([folder / "rows.tfrecord"], "#/"),
        "comparison": ([*weights, folder / "b.safetensors"], "#/"),
        "model": ([ROOT / "tests/golden/keras/keras-2.13.keras"], "#/0/model"),
    }


NAMES = ["weights", "tensor", "statistics", "rows", "comparison", "model"]


@pytest.mark.parametrize("name", NAMES)
def test_screen(show, screens, name):
    """A screen has the same parts in the same places as the one that was looked at."""
    paths, address = screens[name]
    found = {}
    for wide in (1280, 400):
        shown = show(*paths, address=address, viewport={"width": wide, "height": 860})
        shown.page.wait_for_load_state("networkidle")
        shown.settled()
        found[f"{wide} pixels"] = shown.page.evaluate(OUTLINE)
    check(name, found)


def test_graph(show, tf, tmp_path):
    """The same of the graph of a function."""
    shown = show(save_module(tf, tmp_path), address="#/0/graph")
    shown.page.wait_for_selector(".graph .box")
    check("graph", {"1280 pixels": shown.page.evaluate(OUTLINE)})


def check(name, found):
    path = STORED / f"{name}.json"
    if os.environ.get("FERRY_STRUCTURE") == "write":
        STORED.mkdir(exist_ok=True)
        path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    assert found == json.loads(path.read_text())
