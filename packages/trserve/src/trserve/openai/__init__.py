"""OpenAI's API as data: requests, responses, errors, limits; nothing that generates."""
