"""Typed errors of the balancer; each says what is wrong and, for settings, which field."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trcore import WhyNot


class RbalanceError(Exception):
    """Base of this package's errors."""


class ConfigError(RbalanceError):
    """A setting that makes no sense.

    field: dotted path of the offending setting, e.g. `weights.quality` or `--k`.
    message: what is wrong with it.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


class TrainingError(RbalanceError):
    """Labelled data that no predictor can be fitted to; the message says what is missing."""


class ArtefactError(RbalanceError):
    """Something fitted that cannot be read or does not belong here; the message names the file."""


class MissingExtraError(RbalanceError, ImportError):
    """A library of an optional extra is not installed."""

    def __init__(self, library: str, extra: str) -> None:
        super().__init__(
            f"rbalance needs {library!r} for this, which is not installed: "
            f"pip install 'rbalance[{extra}]'"
        )
        self.name = library


class NoInstanceError(RbalanceError):
    """A request that no instance may take; the message says what stands against which.

    why: all that keeps the request from each instance, by the instance's number. Of an instance
        that is kept out by its ceilings alone, a bit of no other reason is set.
    """

    def __init__(self, message: str, why: Mapping[int, WhyNot] = MappingProxyType({})) -> None:
        super().__init__(message)
        self.why = why
