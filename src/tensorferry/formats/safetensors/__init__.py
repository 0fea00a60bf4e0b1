"""safetensors."""
