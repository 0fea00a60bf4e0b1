"""Arrow's IPC files and streams.

    format.py     reader and writers of the format
    file.py       the record batches of a file or stream
    messages.py   the lengths of messages, checked before PyArrow reads them

What is in columns is `tensorferry.formats.tables`.
"""
