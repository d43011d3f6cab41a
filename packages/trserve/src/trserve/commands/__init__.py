"""What the commands do; `trserve.cli` declares them."""
