"""Engines by configuration; each is imported only when a configuration asks for it."""
