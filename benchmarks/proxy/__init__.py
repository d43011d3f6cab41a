"""What `benchmarks.gateway` and `benchmarks.burst` are made of: proxies, what is behind and before them."""
