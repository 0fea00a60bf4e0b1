"""Tables: what the formats of columns have in common.

    pieces    what a format's reader must be able to do; PyArrow and its errors
    reads     how a format is opened: rows as a `Table`, whole tensors as a `Bundle`
    table     `Table`: rows and columns of one or many files, with `files` and `choice`
    writer    `TableWriter`: rows and batches into files, with `gather`
    columns   values as Arrow's columns, and back again: `values`, `chunks`, `outline`, `members`

A format has a `pieces.Reader`, a subclass of `reads.TableReads` and a `writer.BatchWriter`.
"""
