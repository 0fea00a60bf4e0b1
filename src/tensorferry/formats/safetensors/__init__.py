"""safetensors: named arrays of numbers behind a JSON header, as Hugging Face's models are kept.

    format.py   reader and writer of the format
    file.py     one file: its header and its data
    shards.py   a model of several files, with an index

Others use the format through `tensorferry.formats.table` only.
"""
