"""savedmodel."""
