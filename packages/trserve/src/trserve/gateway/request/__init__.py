"""One request's way through the gateway, from its body to its last byte: `request_handler`."""
