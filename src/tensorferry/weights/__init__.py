"""Weights: from any file of named tensors into any model, and back.

ferry.save_weights(model, "model.safetensors")
report = ferry.load_weights(model, "model.safetensors")
print(report)                                  # which tensor went where, and how it was found

saving      `save_weights`
loading     `load_weights`
saver       `Saver`: variables under names of the user's choice
manager     `CheckpointManager`: the last files of a folder, and the best
callback    `weights_callback`: saves weights while Keras trains
steps       files of one series by their step; `latest_checkpoint`
report      what loading did
plan        which variable gets which tensor, checked before anything is set
matching    pairs names of variables with names of tensors
name_map    the names and transforms that the user gives
offered     the tensors of a file, a bundle or a dict
"""
