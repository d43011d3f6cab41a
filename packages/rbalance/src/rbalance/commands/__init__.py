"""What the commands do; `rbalance.cli` declares them."""
