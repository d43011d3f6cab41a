"""The three loops of a subserver, and the tables and rules that they go by."""
