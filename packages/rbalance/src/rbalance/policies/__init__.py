"""Ways to decide which instance answers a request, by name: see rbalance.policies.registry."""
