"""From a checked request to its response: generation, choices, events."""
