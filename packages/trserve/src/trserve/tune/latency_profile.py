"""The latency profile that `trserve profile` writes and `trserve tune` reads: a YAML file.

Its `models` are models of the engine `profile`, to be pasted into a configuration as they are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec
import yaml

from trsched.errors import ConfigError
from trsched.plan.config import ProfileModel, converted, group_config
from trserve.settings.config_file import read_config

FORMAT: Literal["trserve-latency-1"] = "trserve-latency-1"


class MeasuredPoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Steps of `batch` sequences that each ingest `tokens` tokens; ms: median and quartiles."""

    batch: int
    tokens: int
    ms: float
    low_ms: float
    high_ms: float


class MeasuringConditions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a profile came about.

    batches: sizes that were measured; those in between are interpolated.
    extend_tokens: tokens for each sequence in the steps that `extend_token_ms` is fitted to.
    steps: for each point.
    shared_device: the configuration has its models step by turns.
    points: of each model, by name.
    """

    source: str
    date: str
    cores: int
    context_tokens: int
    steps: int
    batches: list[int]
    extend_tokens: list[int]
    shared_device: bool
    points: dict[str, list[MeasuredPoint]]


class LatencyProfile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Latencies of the models of a group, in the group's order.

    measured: None if by hand.
    """

    models: list[ProfileModel]
    measured: MeasuringConditions | None = None
    format: Literal["trserve-latency-1"] = FORMAT


def read_profile(path: Path) -> LatencyProfile:
    """Raises ConfigError naming the file, or the field that is wrong."""
    data = read_config(path).data
    try:
        profile = converted(data, LatencyProfile, "profile")
        # the latencies are checked where a configuration's are
        group_config(
            {
                "name": "profile",
                "models": msgspec.to_builtins(profile.models),
                "router": {"name": "fixed"},
            }
        )
    except ConfigError as error:
        raise ConfigError(f"{path}: {error.field}", _message(error)) from error
    return profile


def _message(error: ConfigError) -> str:
    return str(error).removeprefix(f"{error.field}: ")


def profile_document(profile: LatencyProfile) -> dict[str, Any]:
    """Plain data in the file's order; of the models only what was measured."""
    document: dict[str, Any] = {"format": profile.format}
    if profile.measured is not None:
        document["measured"] = msgspec.to_builtins(profile.measured)
    document["models"] = [
        {
            "engine": "profile",
            "name": model.name,
            "step_ms": model.step_ms,
            "extend_token_ms": model.extend_token_ms,
        }
        for model in profile.models
    ]
    return document


def profile_text(profile: LatencyProfile) -> str:
    """The file's text."""
    return yaml.safe_dump(
        profile_document(profile), sort_keys=False, default_flow_style=None, allow_unicode=True
    )
