"""From a prompt to the quality and the length of each model's answer."""
