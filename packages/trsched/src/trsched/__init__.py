"""Subservers, scheduling and engines: several models step one response, each at its own pace."""

from trsched.errors import (
    ConfigError,
    EngineError,
    GroupUnavailableError,
    QueueFullError,
    RequestError,
    RequestTooLongError,
    TrschedError,
)
from trsched.plan.config import GroupConfig, group_config
from trsched.request import (
    Event,
    FinalEvent,
    GenerateRequest,
    SamplingParams,
    TokenEvent,
    TokenLogprobs,
)

__all__ = [
    "ConfigError",
    "EngineError",
    "Event",
    "FinalEvent",
    "GenerateRequest",
    "GroupConfig",
    "GroupUnavailableError",
    "QueueFullError",
    "RequestError",
    "RequestTooLongError",
    "SamplingParams",
    "TokenEvent",
    "TokenLogprobs",
    "TrschedError",
    "group_config",
]
