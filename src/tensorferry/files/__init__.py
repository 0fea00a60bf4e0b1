"""Files: the only way from a name to something opened, and from a value to a file.

    find.py       a path, URL, glob, folder, "name@10" or list -> places and a format
    open.py       `open` and `load`
    save.py       `save`
    writer.py     `writer`, row by row
    bytes.py      `dumps` and `loads`, without a file
    content.py    a user's value -> content that formats write
    sidecars.py   metadata beside files whose format has no place for it

Modules below this layer know single formats; modules above it know none.
"""
