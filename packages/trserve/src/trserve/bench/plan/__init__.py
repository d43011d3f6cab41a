"""A load made definite before anything is sent: when, and what."""
