"""Policies to compare with that need labels or several answers; they never run live."""
