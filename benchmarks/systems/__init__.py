"""What is compared: servers and drivers of servers; see `System` in `benchmarks.load.system`."""
