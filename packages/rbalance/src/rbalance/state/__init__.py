"""What is known of each instance: requests in flight, telemetry, features for TPOT."""
