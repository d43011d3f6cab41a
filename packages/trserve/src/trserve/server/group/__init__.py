"""The one group behind HTTP: its events reach asyncio tasks, and it is shut down with patience."""
