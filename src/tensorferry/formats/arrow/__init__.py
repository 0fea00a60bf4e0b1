"""Arrow's IPC files and streams: `format` declares it, `file` has the bytes, checked by `messages`."""
