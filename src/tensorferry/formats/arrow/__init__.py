"""Arrow's IPC files and streams.

`format` declares it, `file` has the bytes, which `messages` checks.
"""
