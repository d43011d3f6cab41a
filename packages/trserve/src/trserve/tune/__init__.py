"""`trserve profile` and `trserve tune`: latencies measured, thresholds found."""
