"""Keras 3, with any backend.

    variables    the variables of models, layers and optimizers
    models       models as `.keras` files, and what Keras knows about a model
    tracking     what Keras' own files keep of an object, for diagnosis

`tensorferry.frameworks.table` loads these modules. Keras 2 is `tensorferry.frameworks.tensorflow`.
"""
