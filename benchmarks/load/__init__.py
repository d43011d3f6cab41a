"""Requests on a system, and clients that send them."""
