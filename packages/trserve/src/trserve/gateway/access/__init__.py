"""Who may ask, and for how much."""
