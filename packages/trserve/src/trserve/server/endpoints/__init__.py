"""The HTTP endpoints, one file for each concern."""
