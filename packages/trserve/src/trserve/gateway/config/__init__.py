"""What a gateway is made of, from its file, flags and environment; checked."""
