"""Typed errors of the scheduler; each says what is wrong and, for input, which field."""


class TrschedError(Exception):
    """Base of this package's errors."""


class ConfigError(TrschedError):
    """A configuration that cannot be served.

    field: dotted path of the offending setting, e.g. `models[1].path`.
    message: what is wrong.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


class NotInstalledError(ConfigError):
    """A library that an optional extra brings is not installed.

    Attributes:
        library: what is missing, for people.
        extra: the extra that brings it, of this package and, by the same name, of trserve.
    """

    def __init__(self, field: str, library: str, extra: str) -> None:
        super().__init__(field, f"{library} is not installed: pip install 'trsched[{extra}]'")
        self.library = library
        self.extra = extra


class EngineError(TrschedError):
    """An engine cannot go on; its subserver dies with it."""


class RouterFailedError(TrschedError):
    """A router raised, or returned what makes no sense; the message says what, for people."""


class RequestError(TrschedError):
    """A request that cannot be taken.

    param: the request's field that is at fault, or None.
    """

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


class RequestTooLongError(RequestError):
    """Prompt and output together do not fit into every model's context."""


class QueueFullError(RequestError):
    """As many requests wait for admission as the group may hold; try again later."""


class GroupUnavailableError(RequestError):
    """The group is draining or no model is left that could answer."""
