"""ASGI middleware, outermost first: exchange, api_key, body_limit."""
