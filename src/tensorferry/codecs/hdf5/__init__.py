"""HDF5 files, as far as Keras and h5py write them: read strictly, without the HDF5 library.

    file        `File` gives the groups, datasets and attributes of a file as `Node`s
    types       the type, shape, fill value and filters that the messages of a dataset describe

Values are read by `tensorferry.formats.keras.values`; files are written with h5py. This module
imports neither of the two.
"""
