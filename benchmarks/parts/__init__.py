"""What single benchmarks are made of, one or two modules each."""
