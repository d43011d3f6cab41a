"""Where subservers run: as threads, as processes, and the processes of further ranks."""
