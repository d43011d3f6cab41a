"""One request of a load: sent, read as it streams in, recorded."""
