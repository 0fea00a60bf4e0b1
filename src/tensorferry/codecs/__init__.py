"""Codecs: bytes to structure and back, without tensors. They open no files and import no format.

    protobuf        messages by a table of their fields, read in place and written as buffers
    textproto       protobuf's text format
    json_text       strict JSON
    leveldb         sorted tables of keys and values, as checkpoints have them
    riegeli         files of records, as chunked SavedModels are
    zip, hdf5       containers, a folder each
    compression     streams: gzip, zlib, zstd
    quantization    floating-point arrays to smaller ones, and back

Import the module that is needed: this one imports none of them, and only `quantization`, `zip` and
`hdf5` need NumPy.
"""
