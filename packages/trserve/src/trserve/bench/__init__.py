"""A load generator for OpenAI-compatible servers: when requests are sent, what is measured."""
