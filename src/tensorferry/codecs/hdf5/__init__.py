"""HDF5 files, as Keras, h5py and others write them: read strictly, without the HDF5 library.

    file        `File` gives the groups, datasets and attributes of a file as `Node`s
    types       the type, shape, fill value and filters that the messages of a dataset describe
    chunks      where the values of a dataset are: layouts of all versions, indexes of chunks
    trees       B-trees of both versions
    heaps       where groups keep many links, and objects many attributes
    writer      writing groups, arrays and texts, in the form that h5py has by default

Values are read by `tensorferry.formats.keras.values`.
"""
