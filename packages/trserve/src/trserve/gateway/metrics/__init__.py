"""What is counted and traced of the gateway."""
