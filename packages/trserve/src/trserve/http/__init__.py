"""What every HTTP server here shares: errors, middleware, sockets, signals, logs."""
