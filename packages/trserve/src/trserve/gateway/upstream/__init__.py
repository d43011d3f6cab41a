"""What instances send and are sent: events, token counts, headers, connections."""
