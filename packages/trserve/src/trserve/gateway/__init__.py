"""The gateway: RouteBalance live in front of real servers (`trserve gateway`)."""
