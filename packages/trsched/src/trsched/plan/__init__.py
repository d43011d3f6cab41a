"""A group's configuration, checked: models, routers, KV memory, before weights are loaded."""
