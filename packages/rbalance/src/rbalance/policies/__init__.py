"""Policies that a live balancer can use: which instance answers a request."""
