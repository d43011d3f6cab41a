"""What the commands do; `trserve.cli.main` declares them."""
