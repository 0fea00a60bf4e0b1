"""Structure: values of any nesting, as TensorFlow's StructuredValue.

    format.py    reader and writer of the format
    message.py   the message itself: bytes to a value and back

A feature of an Example may hold such a message, for a sparse or ragged tensor.
"""
