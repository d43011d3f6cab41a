"""The metrics page of `trserve launch`."""
