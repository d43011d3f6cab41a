"""What `benchmarks.routing` runs: pairs of models, loads on systems, figures of each run."""
