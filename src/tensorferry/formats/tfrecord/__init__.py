"""TFRecord: records of bytes, most often tf.train.Example messages, as rows with columns.

    format.py     `FORMAT`: how tensorferry opens and writes the format
    records.py    `Records`, the rows of one or many files; `repair`
    writer.py     `RecordWriter`, which writes rows, columns or bytes
    quantizing.py `QuantizingWriter`, which writes floats as small tensors
    options.py    the options of both

    frames.py     the bytes: lengths, checksums, damage          index.py     where records are
    example.py    Examples to columns                            survey.py    Examples to a schema
    arrow.py      Examples to Arrow's record batches             encoder.py   columns to Examples
    tensors.py    tensors inside of Examples                     columns.py   what columns are like
    files.py      the passes over files and streams              decoding.py  batches in threads
    access.py     records by number                              splits.py    dividing files
    problems.py   what is wrong with a file                      contents.py  what records hold

Others use the first block. `tensorferry.serving` and `tensorferry.tfio` also use the encoder, and
the kinds of lists that `example` names.
"""
