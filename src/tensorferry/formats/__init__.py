"""Formats: what the bytes of a file mean, one module or one folder each.

    contract.py     what a format is: facts, a reader, a writer, options
    table.py        the one list of formats, with their facts
    signatures.py   how each is recognised
    detect.py       which format a file is of
    arrays.py       what npy, npz and safetensors have in common
    wholes.py       what TensorProto, structures, JSON and raw bytes have in common
    tables/         what Arrow, Parquet and others made of columns have in common

To add a format: its module or folder with a `FORMAT`, a line in the table, a test, and a page in
docs/formats. Formats see values of `tensorferry.tensors` only: frameworks' tensors become values
before, in `tensorferry.files`, and after.
"""
