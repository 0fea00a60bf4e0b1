"""Models: programs with their variables, written, loaded, looked into and asked.

`saving` and `loading` are the verbs, `report` and `loaded` what they give, `dangers` what a model
would do beside computing. `outline` says what a file holds of a model, without NumPy, and
`predictions` what a model gives for many inputs.
"""
