"""Arrow's IPC files and streams: `format` declares them, `file` reads and `messages` checks them."""
