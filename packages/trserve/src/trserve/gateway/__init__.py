"""`trserve gateway`: an OpenAI-compatible proxy that chooses the instance for every request."""
