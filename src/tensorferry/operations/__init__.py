"""Operations: what tensorferry does with files, one module a verb. They print nothing.

    inspect.py    what is in a file; glance.py is its short way for models, without NumPy
    list.py       the tensors or columns, with repeated layers once
    show.py       the values of one tensor
    count.py      how many rows or tensors there are
    select.py     some rows; conditions.py is the language of `where`, patterns.py that of `~`
    verify.py     whether every byte is sound
    diff.py       what differs between two files; differences.py compares two tensors
    hash.py       a digest of the content, whatever the format
    stats.py      the distribution of values; measures.py sums them up
    schema.py     what rows are made of, in the languages of others
    convert/      from one format into another
    edit.py       some tensors of a file changed, in place or into another one
    reshard.py    some rows into a new file; TFRecords repaired and indexed
    sample.py  shuffle.py  split.py   rows at random into new files; freight.py carries them
    sql.py        queries over files, by DuckDB
    images.py     pictures among the bytes of rows; sounds.py the same for audio
    distribution.py   summary and histograms of a tensor in one pass
    planes.py     the part of a tensor that a screen shows; branches.py the tree of names
    pages.py      rows by their numbers, and the search for rows; cells.py values in brief
    counterparts.py   which tensors of two files belong together
    row_pairs.py      which rows of two files differ
    nulls.py          which lists of a table are missing, not only empty
    drawing.py    where boxes and lines of a graph go; layers.py the layers of a Keras file
    exports.py    a tensor as npy and rows as CSV, in pieces; snippets.py what to type for it
    plain.py      results as what JSON has
    bench.py      a tensor or a file in every format
    formats.py    what can be read and written here

Each opens its input through `subject.py` and returns a frozen dataclass, which the command and
others render. `names.py` has patterns and new names.
"""
