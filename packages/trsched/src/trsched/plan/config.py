"""Configuration of a group: plain data, checked without loading anything."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, ClassVar, Literal, TypeVar

import msgspec

from trrouters import Need
from trsched.errors import ConfigError, RequestError
from trsched.plan.sglang_model import LoadFormat, SglangModel
from trsched.request import ModelSampling, SamplingParams

_Struct = TypeVar("_Struct", bound=msgspec.Struct)

AUTO = "auto"
"""As `kv_memory`: whatever the GPUs have left beside the weights."""

_UNITS = {
    "": 1,
    "b": 1,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
}


def parse_bytes(text: str | int, field: str) -> int:
    """Bytes from 1073741824, "1GiB", "512 MiB", "2GB". Raises ConfigError naming `field`."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", str(text))
    if match is None or match[2].lower() not in _UNITS:
        raise ConfigError(field, f"not a size: {text!r} (try 1GiB or 512MiB)")
    return int(Decimal(match[1]) * _UNITS[match[2].lower()])


class LlamaCppModel(
    msgspec.Struct, frozen=True, tag_field="engine", tag="llamacpp", forbid_unknown_fields=True
):
    """A GGUF file on llama.cpp.

    path: file, or `package://PACKAGE/FILE` for package data.
    quantize: requantise once to this type (e.g. Q4_0), cached.
    threads: CPU threads of a step (0: all cores).
    gpu_layers: layers on the GPU.
    threshold: B, requests that must wait before a batch starts.
    batch_tokens: most tokens a forward takes (chunked prefill).
    deferral_row: the LM head's last row is no token but Co-LLM's deferral logit, split off before
        softmax and sampling.
    sampling: values that replace the request's own for the tokens that this model makes.
    """

    name: str
    path: str
    quantize: str | None = None
    threads: int = 0
    gpu_layers: int = 0
    threshold: int = 1
    batch_tokens: int = 128
    deferral_row: bool = False
    sampling: ModelSampling = ModelSampling()

    engine_name: ClassVar[str] = "llamacpp"
    ranks: ClassVar[int] = 1

    @property
    def provides(self) -> frozenset[Need]:
        """What the engine can show a router."""
        always: frozenset[Need] = frozenset({"logits", "hidden_states", "token_embedding"})
        return always | {"extra_logits"} if self.deferral_row else always


class ProfileModel(
    msgspec.Struct, frozen=True, tag_field="engine", tag="profile", forbid_unknown_fields=True
):
    """No weights: step times from a latency profile, tokens from a seeded process.

    step_ms: latency of a decode step at batch sizes 1, 2, … (the last value holds beyond).
    extend_token_ms: added for each further token a step ingests.
    eos_rate: probability that a token is the end of the response.
    kv_bytes_per_token: for the memory budget.
    sampling: taken but, like a request's, without effect: of these settings the tokens depend on
        the seed alone.
    """

    name: str
    step_ms: list[float]
    extend_token_ms: float = 0.0
    vocab_size: int = 257
    eos_rate: float = 0.0
    kv_bytes_per_token: int = 1024
    threshold: int = 1
    sampling: ModelSampling = ModelSampling()

    engine_name: ClassVar[str] = "profile"
    ranks: ClassVar[int] = 1
    provides: ClassVar[frozenset[Need]] = frozenset()


ModelConfig = LlamaCppModel | ProfileModel | SglangModel
Mode = Literal["routed", "llm-only", "slm-only", "official"]
DelayedBatching = Literal["auto", "fixed", "off"]


class RouterConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A router by its registered name, with its settings.

    obtain: for people, how to get its checkpoint where that is not on this machine yet. With it,
    `check` takes a checkpoint that is not there for one still to come, and not for a mistake.
    """

    name: str
    settings: dict[str, Any] = {}
    obtain: str | None = None


class GroupConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The models that cooperate, in order (index 0 is the entry), and what they share.

    context: most tokens (prompt and output) of one request.
    kv_memory: bytes for the KV of all models together, split so that all hold the same number of
        tokens; `auto` (groups of sglang models): what the GPUs have left beside the weights.
    max_active: requests served at once (default: as many as the KV holds at full context; more is
        allowed, pending KV is then reclaimed under pressure).
    max_queue: requests that may wait for admission.
    overlap: let models of one machine step at the same time (off: they take turns on all cores).
    load_format: of all sglang models, in place of their own.
    on_peer_death: whether a pair's requests go on with the model that is left, or fail.
    mode: `routed`, or one that routing is compared with (see `modes`).
    delayed_batching: `auto` finds the thresholds B while it serves (each model's `threshold` is
        where it starts), `fixed` keeps those, `off` starts every batch at once.
    execution: `async`, or `lockstep`: the models synchronise at every step.
    handoff: `resume` keeps a request's KV while it is at a peer, `readmit` frees it at once and
        computes it anew. (`lockstep` and `readmit` are there to show what the other is worth.)
    on_router_error: whether a request that the router fails on ends with an error, or goes on,
        marked degraded, in the model it is in (the next token is routed as ever). A bad `entry`
        ends its request in any case: no model has it yet.
    processes: give every model a process of its own instead of a thread; where one runs on sglang
        they have them in any case.
    """

    name: str
    models: list[ModelConfig]
    router: RouterConfig
    context: int = 2048
    kv_memory: str | int = "1GiB"
    max_active: int | None = None
    max_queue: int = 1024
    overlap: bool = False
    load_format: LoadFormat | None = None
    mode: Mode = "routed"
    delayed_batching: DelayedBatching = "auto"
    execution: Literal["async", "lockstep"] = "async"
    handoff: Literal["resume", "readmit"] = "resume"
    on_peer_death: Literal["degrade", "fail"] = "degrade"
    on_router_error: Literal["fail", "continue"] = "fail"
    processes: bool = False

    @property
    def in_processes(self) -> bool:
        """Whether every subserver has a process of its own: as configured, or for SGLang.

        A model there may have several ranks, and what SGLang knows of itself is its process's.
        """
        return self.processes or any(isinstance(model, SglangModel) for model in self.models)

    @property
    def kv_bytes(self) -> int | None:
        """The KV budget in bytes; None for `auto`."""
        return None if self.kv_memory == AUTO else parse_bytes(self.kv_memory, "kv_memory")


def group_config(data: Mapping[str, Any]) -> GroupConfig:
    """A checked GroupConfig from parsed YAML or JSON. Raises ConfigError naming the field."""
    config = converted(data, GroupConfig, "configuration")
    _check(config)
    return _with_load_format(config)


def converted(data: object, kind: type[_Struct], whole: str) -> _Struct:
    """Plain data as a struct. Raises ConfigError naming the field, `whole` for the data itself."""
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        raise ConfigError(path.rstrip("`").lstrip(".") or whole, message) from error


def _check(config: GroupConfig) -> None:
    if not config.models:
        raise ConfigError("models", "at least one model is needed")
    names = [model.name for model in config.models]
    for i, model in enumerate(config.models):
        field = f"models[{i}]"
        if names.index(model.name) != i:
            raise ConfigError(f"{field}.name", f"{model.name!r} is used twice")
        _at_least(f"{field}.threshold", model.threshold, 1)
        _check_sampling(model.sampling, f"{field}.sampling")
        if isinstance(model, SglangModel):
            model.check(field)
        elif isinstance(model, ProfileModel):
            _check_profile(model, field)
        else:
            _at_least(f"{field}.threads", model.threads, 0)
            _at_least(f"{field}.batch_tokens", model.batch_tokens, 1)
    _at_least("context", config.context, 8)
    _at_least("max_queue", config.max_queue, 0)
    if config.kv_bytes is not None:
        _at_least("kv_memory", config.kv_bytes, 1)
    elif not all(isinstance(model, SglangModel) for model in config.models):
        raise ConfigError("kv_memory", "auto is for groups whose models all run on sglang")
    if config.max_active is not None:
        _at_least("max_active", config.max_active, 1)


def _with_load_format(config: GroupConfig) -> GroupConfig:
    if config.load_format is None:
        return config
    models = [
        msgspec.structs.replace(model, load_format=config.load_format)
        if isinstance(model, SglangModel)
        else model
        for model in config.models
    ]
    if not any(isinstance(model, SglangModel) for model in models):
        raise ConfigError("load_format", "is for models on sglang, of which there is none")
    return msgspec.structs.replace(config, models=models)


def _check_profile(model: ProfileModel, field: str) -> None:
    if not model.step_ms or not all(0 < ms < math.inf for ms in model.step_ms):
        raise ConfigError(f"{field}.step_ms", "must be one or more positive latencies")
    if not 0 <= model.extend_token_ms < math.inf:
        raise ConfigError(f"{field}.extend_token_ms", "must be a latency of 0 or more")
    if not 0 <= model.eos_rate <= 1:
        raise ConfigError(f"{field}.eos_rate", "must be a probability")
    _at_least(f"{field}.vocab_size", model.vocab_size, 257)  # the bytes and the end
    _at_least(f"{field}.kv_bytes_per_token", model.kv_bytes_per_token, 1)


def _check_sampling(sampling: ModelSampling, field: str) -> None:
    try:
        sampling.over(SamplingParams()).check()  # the defaults pass: what fails was set here
    except RequestError as error:
        raise ConfigError(f"{field}.{error.param}", str(error)) from error


def _at_least(field: str, value: int, least: int) -> None:
    if value < least:
        raise ConfigError(field, f"must be at least {least}, not {value}")
