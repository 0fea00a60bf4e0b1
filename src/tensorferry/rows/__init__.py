"""Rows: ordered sets of rows with columns, over one or many files, whatever their format.

    rows.py       `Rows`, the verbs that every format of rows has
    splits.py     `Split`, a part of rows that can be read alone, anywhere
    schema/       `Schema`, what the columns are, in our words and in those of others
    columns.py    slicing and joining columns of every kind
    permutation.py    numbers in a random order, which takes no memory

The formats of rows, in `tensorferry.formats`, are subclasses of `Rows`.
"""
