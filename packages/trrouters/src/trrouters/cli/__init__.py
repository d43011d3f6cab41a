"""The command `trrouters`: train routers for a pair of models."""
