"""TensorFlow's checkpoints.

    format     what the table of formats refers to: options, a reader, a writer
    state      which checkpoint a path leads to, and the `checkpoint` file of a folder
    reader     opening: a `Checkpoint` of tensors that are read when they are asked for
    outline    what a small checkpoint holds, without NumPy
    names      what tensors are called
    graph      the objects that `tf.train.Checkpoint` saves
    index      the index as a whole; `entries` one by one, `messages` the protobuf in it
    tensors    tensors made of entries; `strings` and `slices` those that are no run of numbers
    writer     writing, and removing
    v1         the first version, which is only read

Importing this folder imports none of them.
"""
