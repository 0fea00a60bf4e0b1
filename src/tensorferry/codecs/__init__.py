"""Codecs: bytes to bytes and array to array. They open no files."""
