"""Memory that the subservers of a group share: counters, thresholds, turns."""
