"""Frameworks: the only folder that imports TensorFlow, Keras, PyTorch and JAX.

    contract      what a framework's modules provide, as typed protocols
    table         which module keeps which contract; loads them, and nothing else does
    conversion    `accept` and `give`: values of a user to ours and back
    variables     the variables of any model, read and set in place
    programs      a model's signatures, and what a saved file keeps and leaves out
    frames        tables of pandas, polars, PyArrow and others, in and out
    memory        aligned copies that a framework uses in place
    tensorflow/ keras/ torch jax    one framework each

Others call `frameworks.accept` and `frameworks.give`. Importing this package imports no framework,
and `accept` imports none that the program did not import itself.
"""

from tensorferry.frameworks.conversion import (
    accept as accept,
    as_message as as_message,
    as_record as as_record,
    framework_of as framework_of,
    give as give,
    sparse_parts as sparse_parts,
)
from tensorferry.frameworks.table import NAMES as NAMES
