"""What single units cost, by pytest-benchmark; `benchmarks.units` runs them."""
