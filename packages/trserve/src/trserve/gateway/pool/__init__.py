"""The instances: their health, their telemetry, their state, and what chooses among them."""
