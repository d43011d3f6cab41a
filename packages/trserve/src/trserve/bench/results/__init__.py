"""A load in numbers, and how they look."""
