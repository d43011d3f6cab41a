"""The gateway's HTTP endpoints."""
