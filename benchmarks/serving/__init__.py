"""Systems that serve routed responses, compared under the same load; see `benchmarks.routing`."""
