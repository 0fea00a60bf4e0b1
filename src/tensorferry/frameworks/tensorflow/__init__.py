"""TensorFlow, and Keras 2 (tf_keras).

    tensors       dense, sparse and ragged tensors to our values and back
    variables     variables, and the weights of Keras 2
    objects       the object graph, and paths in checkpoints
    models        models into SavedModels; `signatures` traces their functions
    programs      SavedModels back as functions
    graphs        what TensorFlow sees in a SavedModel
    tracking      functions and resources, for diagnosis

`tensorferry.frameworks.table` loads these modules.
"""
