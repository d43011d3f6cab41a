"""The production engine: SGLang's own scheduler, driven one iteration at a time in this process."""
