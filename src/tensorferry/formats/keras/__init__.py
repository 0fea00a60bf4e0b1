"""Files in which Keras keeps weights and models.

    format     what the table of formats refers to: options, a reader, a writer
    reader     opening: `Weights` that are read when they are asked for, and the config
    layouts    which datasets of an HDF5 file are variables, and what they are called
    values     the arrays of HDF5 datasets
    shards     weights in several files with an index
    writer     writing: paths, shards, archives
    config     the JSON of a model, read as text
    outline    what a model is, by its config alone

Importing this folder imports none of them.
"""
