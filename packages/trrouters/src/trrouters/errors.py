"""Errors of routers and their registry."""


class RouterError(Exception):
    """Base of this package's errors."""


class UnknownRouterError(RouterError):
    """No installed package registers a router of that name."""


class RouterConfigError(RouterError):
    """A router refuses its settings; the message names the setting."""


class CheckpointError(RouterConfigError):
    """A trained router cannot be read, or was trained for other models; the message names it."""


class MissingCheckpointError(CheckpointError):
    """There is nothing at a trained router's path."""


class MissingTorchError(RouterConfigError):
    """A router, or its checkpoint, needs torch or safetensors, and that is not installed."""

    def __init__(self, what: str, library: str) -> None:
        super().__init__(f"{what} needs {library}: pip install 'trrouters[torch]'")


class RouterOutputError(RouterError):
    """A router returned destinations or a message that make no sense."""
