"""OpenAI's request and response objects, as far as this server speaks them."""
