"""TensorFlow's SavedModels and frozen graphs.

    format         what the table of formats refers to: options and a reader
    model          looking into a model: `read` gives a `SavedModel`
    reader         opening the values of its variables
    variables      what the variables are called
    graph          nodes, functions and constants of a GraphDef
    cycles         functions that call themselves
    constants      the values of constants
    objects        the graph of objects
    specs          signatures, and what tensors and arguments are like
    ops            what ops do; `ops.txt` sorts TensorFlow's own
    assets         the files beside a model; `fingerprint` its hashes
    messages       the protobuf messages; `text` and `chunks` two other ways to write them

Importing this folder imports none of them. Only `reader` and `constants` need NumPy.
"""
