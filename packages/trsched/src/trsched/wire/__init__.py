"""What passes between loops: messages, their bytes, and the rings that carry them."""
