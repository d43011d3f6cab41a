"""Proxies, what is behind and before them: of `benchmarks.gateway` and `benchmarks.burst`."""
