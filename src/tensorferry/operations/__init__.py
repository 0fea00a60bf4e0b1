"""What tensorferry does, as functions that print nothing."""
