"""Settings of servers: from flags, environment, files and defaults."""
