"""keras."""
