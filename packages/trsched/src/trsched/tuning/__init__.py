"""Delayed batching tuned while serving: estimates, the optimum for them, and when to follow it."""
