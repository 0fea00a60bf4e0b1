"""Tensors: values in memory, and named tensors in files.

    values     NumPy arrays, `SparseTensor`, `RaggedTensor` and structures of them
    infos      what is known of a tensor without reading it
    tree       structures as JSON, with a placeholder for each tensor
    layout     a structure as named tensors, and back
    stored     tensors as the arrays that a file holds, read when they are asked for
    held       stored tensors that are in memory already, and quantized ones
    entries    arrays of numbers as they lie in a file
    note       the JSON that a file carries for layouts, parts and dtypes
    content    a value on its way into a file
    bundle     `Bundle`: the named tensors of an open file

Importing this folder imports none of them.
"""
