"""Models: programs with their variables, saved, loaded, inspected and called.

saving         `save_model`: SavedModels, .keras files, or variables alone
loading        `load_model`: back as something to call, after its dangers were judged
predictions    `predict` and `save_predictions`: the outputs for many inputs
report         what saving keeps, and what it leaves out
loaded         a loaded model and its signatures
dangers        what a model would do besides computing
outline        what a file says about its model; imports no NumPy
"""
