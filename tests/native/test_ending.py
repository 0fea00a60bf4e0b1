"""Daemon threads: a thread in native code does not abort the process when Python ends."""

from __future__ import annotations

import subprocess
import sys

import pytest

SETUP = """
import threading, time
import numpy as np
from tensorferry import _native

data = bytes(1 << 20)
encoder = _native.ExampleEncoder()
values = np.arange(200_000)
source = [("a", 3, False, values, None, 1, None, None)]
encoder.prepare(source, len(values))
frames = bytes(encoder.encode(0, len(values)))
decoder = _native.ExampleDecoder([("a", 3, False, True, 1)])
survey = _native.ExampleSurvey()
columns = [("a", 3, False, True, 1)]
packed = b"".join((b"\\x3a\\x80\\x01", bytes(128))) * 8000
target = np.empty(1 << 20, np.int32)
records = [bytes(1000)] * 1000
output = (0, "a", False, (None,), np.int64, np.dtype("i8"))
reader = _native.RowReader([("a", 3, False, True, None)], [output], np.empty)
plan = _native.RowPlan([("a", 3, None, False)], (np.ndarray,))
places = np.zeros(1000, np.int64)
splits = np.arange(0, 200_001, 10)
lines = np.empty((20_000, 10), np.int64)
floats = np.arange(200_000.0).reshape(100, -1)
small = np.empty(floats.shape, np.int8)
scale = np.ones(100)
text = b'{"a": [' + b"1.5, " * 100_000 + b"2]}"
cells = b"1\\n" * 100_000
one_row = [{"a": values, "b": "text", "c": object()}]


class Slow:
    def __getitem__(self, part):
        time.sleep(0.001)


class Writes:
    quick = {}

    def other(self, value, place):
        time.sleep(0.001)
        return None, 1


class Reads:
    def tensor(self, start, end):
        time.sleep(0.001)


structure = b"\\xba\\x03\\x02\\x08\\x01"
"""

CALLS = {
    "checksum": "_native.crc32c(data)",
    "hash": "_native.highway_hash(data, bytes(32))",
    "scan": "_native.tfrecord_scan(frames, 0, 1 << 60, True)",
    "index": "_native.tfrecord_index(frames, 0, 1 << 60, True)",
    "find": "_native.tfrecord_find(data, 0)",
    "frame": "_native.tfrecord_frame(records)",
    "survey": "survey.add(frames, 0, 1 << 60, True)",
    "fill": "_native.tensorproto_fill(packed, 0, len(packed), target, field=7, kind='signed', "
    "bits=32, width=4, group=1)",
    "decode": "decoder.clear(), decoder.decode(frames, 0, 200_000, True)",
    "decode records": "decoder.clear(), decoder.decode_records([])",
    "encode": "encoder.encode(0, len(values))",
    "pieces": "encoder.encode_pieces(0, len(values), 1 << 16, 1, lambda view: None)",
    "sink": "encoder.encode_pieces(0, len(values), 1 << 16, 1, lambda view: time.sleep(0.001))",
    "framer": "_native.Framer(lambda view: time.sleep(0.001), 1).add(b'x')",
    "row": "_native.Framer(lambda view: time.sleep(0.001), 1).add_row(plan, {'a': values})",
    "reader": "reader.read(frames, 0, True)",
    "decode at": "decoder.clear(), decoder.decode_at([frames], places, places, True)",
    "team": "team = _native.ExampleTeam(1); one = _native.ExampleDecoder(columns); "
    "team.submit([(one, frames, 0, 200_000, True)]); team.wait()",
    "team at": "team = _native.ExampleTeam(1); one = _native.ExampleDecoder(columns); "
    "team.submit_at(one, [frames], places, places, True); team.wait()",
    "lay out": "_native.lay_out_rows(values, splits, bytes(8), lines)",
    "join": "_native.join([data] * 16)",
    "longest": "_native.longest_string(data)",
    "inside": "_native.are_inside(values, values[:1])",
    "sparse": "_native.sparse_tensorprotos(values[:, None], values, values[:1], {'l': 9, 'q': 9})",
    "lines": "_native.cut_lines(data, 0, 1 << 16, 1 << 30, True)",
    "csv": "_native.csv_columns(cells, 'i', 100_000, bytearray)",
    "json body": "_native.json_body(text)",
    "json lists": "_native.json_lists(floats, True)",
    "json tensor": "_native.json_tensor(floats, {floats.dtype: b''}, 1 << 40)",
    "json lines": "_native.json_lines(one_row, (np.ndarray,), "
    "lambda value: time.sleep(0.001) or '1')",
    "moments": "_native.moments_of(floats, 'float64')",
    "bins": "_native.count_bins(floats, 'float64', 1, 0.0, places)",
    "magnitudes": "_native.count_magnitudes(floats, 'float64')",
    "compare": "_native.compare_numbers(floats, floats, 'float64', 0.0, 0.0)",
    "ranges": "_native.quantize_ranges(floats, 'float64', 100, 2000, scale, scale)",
    "quantize": "_native.quantize_integers(floats, 'float64', small, 'int8', True, 100, 2000, "
    "np.ones(100), np.zeros(100))",
    "dequantize": "_native.dequantize_integers(small, 'int8', floats, 'float64', 100, 2000, "
    "np.ones(100), np.zeros(100))",
    "nodes": "_native.graph_nodes(packed, 0, len(packed), field=9, variables=(), watched=(), "
    "attributes=(), depth=100)",
    "functions": "_native.graph_functions(packed, [(0, len(packed))], variables=(), watched=(), "
    "attributes=(), depth=100)",
    "slices": "_native.slice_rows(Slow(), splits[:20])",
    "structure": "_native.StructureWriter(np.ndarray, {}).encode([object()], Writes(), 100)",
    "value": "_native.StructureReader(np.ndarray, {}).read(structure, Reads(), 100)",
    "error": "_native.tensorproto_scan(b'\\xff')",
    "end of a team": "team = _native.ExampleTeam(1); one = _native.ExampleDecoder(columns); "
    "two = _native.ExampleDecoder(columns); team.submit([(one, frames, 0, 200_000, True)]); "
    "team.submit([(two, frames, 0, 200_000, True)]); del team",
}


@pytest.mark.parametrize("name", CALLS)
def test_daemon_thread(name):
    """Python ends well while a daemon thread is inside a call that releases the GIL."""
    code = f"""{SETUP}
def loop():
    while True:
        try:
            {CALLS[name]}
        except ValueError:
            pass

threading.Thread(target=loop, daemon=True).start()
time.sleep(0.05)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)

    assert (run.returncode, run.stderr) == (0, "")
