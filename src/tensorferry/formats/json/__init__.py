"""JSON: any tensor or structure as text.

    format.py   reader and writer of the format
    typed.py    values with their types, which come back exactly
    bodies.py   the bodies of TensorFlow Serving's REST API, without types

`tensorferry.serving` uses the bodies; the text itself is `tensorferry.codecs.json_text`.
"""
