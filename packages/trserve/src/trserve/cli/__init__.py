"""The `trserve` command: declarations here, what commands do in `commands`."""
