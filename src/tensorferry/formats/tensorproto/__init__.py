"""TensorProto: one dense tensor, as `tf.io.serialize_tensor` writes it.

    format.py    reader and writer of the format
    message.py   the message itself: bytes to an array and back

Others use the message: structures, Examples, checkpoints and Serving are made of TensorProtos.
"""
