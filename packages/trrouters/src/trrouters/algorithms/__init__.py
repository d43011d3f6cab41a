"""The routers, one a file, and the networks and kernels that they share."""
