"""Zip archives, as `.npz` and `.keras` files are: read lazily and strictly, written front to back.

    archive     `open_archive` gives an `Archive`: its members by name, their bytes, where they lie
    writer      `Writer` writes an archive to a sink; the same members give the same bytes
    directory   what the directory of an archive says of its members; only for the other two

Import from `archive` and `writer`: this module imports neither.
"""
