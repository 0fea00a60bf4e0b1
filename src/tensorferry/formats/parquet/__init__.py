"""Parquet files: `format` declares it, `file` has the bytes, checked by `footer`.

Remote files are `ranges`, row groups on their way into a file `groups`.
"""
