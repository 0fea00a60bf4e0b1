"""Parquet files: `format` declares it, `file` has the bytes, checked by `footer`.

How columns become pages is `encoding`. Remote files are `ranges`, row groups on their way into a
file `groups`.
"""
