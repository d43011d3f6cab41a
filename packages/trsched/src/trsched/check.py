"""Everything that can be said about a configuration without loading weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trcore import deadlock_free
from trrouters import (
    BaseRouter,
    ModelIdentity,
    RouterConfigError,
    RouterContext,
    UnknownRouterError,
    create_router,
)
from trsched.config import GroupConfig, LlamaCppModel, ProfileModel
from trsched.engines.requantize import FTYPES
from trsched.errors import ConfigError, EngineError
from trsched.kv_budget import KvPlan, split_kv_budget
from trsched.model_path import resolve_model_path
from trsched.modes import in_mode
from trsched.vocabulary import ByteVocabulary, GgufVocabulary, Vocabulary
from trsched.weights_fingerprint import weights_fingerprint

_RECORD_OVERHEAD = 512
_LARGEST_INBOX = 1 << 28


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """What a group will be. paths: model files as configured (None for models without one)."""

    config: GroupConfig
    vocabularies: tuple[Vocabulary, ...]
    paths: tuple[Path | None, ...]
    routers: tuple[BaseRouter, ...]
    kv: KvPlan
    max_active: int

    @property
    def degrades(self) -> bool:
        """Whether requests go on without a model that died.

        Pairs only: who has a request is certain there, whatever order models' reports come in.
        """
        may = self.config.on_peer_death == "degrade" and self.routers[0].degradable
        return may and len(self.config.models) == 2

    @property
    def processes(self) -> bool:
        """Whether every subserver has a process of its own: as configured, or for its ranks."""
        return self.config.processes or any(model.ranks > 1 for model in self.config.models)

    @property
    def inbox_bytes(self) -> int:
        """For every request its admission, one hand-off and its release.

        A full inbox only holds its senders up.
        """
        wanted = self.max_active * 2 * (8 * self.kv.context + _RECORD_OVERHEAD) + (1 << 16)
        return min(wanted, _LARGEST_INBOX)

    def lines(self) -> list[str]:
        """The plan for people: memory, batches, routing."""
        lines = [f"router {self.config.router.name} {self.config.router.settings or ''}".rstrip()]
        for i, model in enumerate(self.config.models):
            mib = self.kv.bytes_per_model[i] / 2**20
            lines.append(
                f"model {i} {model.name}: {model.engine_name}, KV {mib:.0f} MiB = "
                f"{self.kv.sequences} × {self.kv.context} tokens, batch threshold {model.threshold}"
            )
        lines.append(self._batching())
        if self.processes:
            lines.append("every model in a process of its own")
        lines.append(f"up to {self.max_active} requests at once, {self.config.max_queue} waiting")
        return lines

    def _batching(self) -> str:
        config = self.config
        if config.execution == "lockstep":
            return "models step in lockstep"
        return {
            "auto": "delayed batching tuned while serving, from these thresholds",
            "fixed": "delayed batching with these thresholds",
            "off": "no delayed batching",
        }[config.delayed_batching]


def check_group(config: GroupConfig) -> GroupPlan:
    """Raises ConfigError naming the field for anything that could not be served.

    The plan's configuration is the one that `config.mode` stands for.
    """
    config = in_mode(config)
    vocabularies, paths = _vocabularies(config)
    bytes_per_token = []
    for i, (model, vocabulary) in enumerate(zip(config.models, vocabularies, strict=True)):
        if vocabulary.fingerprint != vocabularies[0].fingerprint:
            raise ConfigError(
                f"models[{i}]",
                f"{model.name!r} and {config.models[0].name!r} have different vocabularies "
                f"({vocabulary.fingerprint} and {vocabularies[0].fingerprint}): "
                "token-level routing needs models of one tokenizer" + _about_deferral_rows(config),
            )
        if config.context > vocabulary.context_length:
            raise ConfigError(
                "context",
                f"{config.context} tokens, "
                f"but {model.name!r} was made for {vocabulary.context_length}",
            )
        if isinstance(model, ProfileModel):
            bytes_per_token.append(model.kv_bytes_per_token)
        else:
            assert isinstance(vocabulary, GgufVocabulary)
            bytes_per_token.append(vocabulary.kv_bytes_per_token)
    kv = split_kv_budget(config.kv_bytes, bytes_per_token, config.context, config.max_active)
    max_active = config.max_active or kv.sequences
    thresholds = [model.threshold for model in config.models]
    for i, threshold in enumerate(thresholds):
        if threshold > kv.sequences:
            raise ConfigError(
                f"models[{i}].threshold",
                f"{threshold} requests can never wait: KV holds {kv.sequences}",
            )
    if not deadlock_free(thresholds, max_active):
        raise ConfigError(
            "models[].threshold",
            f"{thresholds} can deadlock even with all {max_active} requests active: "
            "the sum of (threshold - 1) must be below that",
        )
    routers = _routers(config, vocabularies[0].size, model_identities(config, vocabularies, paths))
    return GroupPlan(config, vocabularies, paths, routers, kv, max_active)


def _vocabularies(config: GroupConfig) -> tuple[tuple[Vocabulary, ...], tuple[Path | None, ...]]:
    vocabularies: list[Vocabulary] = []
    paths: list[Path | None] = []
    for i, model in enumerate(config.models):
        if isinstance(model, LlamaCppModel):
            path = resolve_model_path(model.path, f"models[{i}].path")
            if model.quantize is not None and model.quantize not in FTYPES:
                raise ConfigError(
                    f"models[{i}].quantize", f"{model.quantize!r} is none of {', '.join(FTYPES)}"
                )
            try:
                vocabularies.append(GgufVocabulary(path, extra_rows=int(model.deferral_row)))
            except EngineError as error:
                raise ConfigError(f"models[{i}].path", str(error)) from error
            paths.append(path)
        else:
            vocabularies.append(ByteVocabulary(model.vocab_size))
            paths.append(None)
    return tuple(vocabularies), tuple(paths)


def _about_deferral_rows(config: GroupConfig) -> str:
    names = [
        repr(model.name)
        for model in config.models
        if isinstance(model, LlamaCppModel) and model.deferral_row
    ]
    if not names:
        return ""
    return f" (the last token of {' and '.join(names)} was taken for its deferral row)"


def model_identities(
    config: GroupConfig, vocabularies: Sequence[Vocabulary], paths: Sequence[Path | None]
) -> tuple[ModelIdentity, ...]:
    """Who the models are, for routers trained for certain ones."""
    return tuple(
        ModelIdentity(model.name, f"{model.engine_name}-{model.name}")
        if path is None
        else ModelIdentity(model.name, weights_fingerprint(path), vocabulary.hidden_size)
        for model, vocabulary, path in zip(config.models, vocabularies, paths, strict=True)
    )


def _routers(
    config: GroupConfig, vocab_size: int, models: tuple[ModelIdentity, ...]
) -> tuple[BaseRouter, ...]:
    count = len(models)
    try:
        routers = tuple(
            create_router(
                config.router.name,
                RouterContext(i, count, vocab_size, models),
                config.router.settings,
            )
            for i in range(count)
        )
    except UnknownRouterError as error:
        raise ConfigError("router.name", str(error)) from error
    except RouterConfigError as error:
        raise ConfigError("router.settings", str(error)) from error
    if config.on_router_error == "continue" and not routers[0].degradable:
        raise ConfigError(
            "on_router_error",
            f"responses of {config.router.name!r} cannot go on without it: only 'fail' is possible",
        )
    for model, router in zip(config.models, routers, strict=True):
        missing = sorted(router.needs - model.provides)
        if missing:
            raise ConfigError(
                "router.name",
                f"{config.router.name!r} needs {', '.join(missing)}, "
                f"which the {model.engine_name} engine of {model.name!r} does not have",
            )
    return routers
