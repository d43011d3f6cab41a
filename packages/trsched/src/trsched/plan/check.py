"""Everything that can be said about a configuration without loading weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace as changed

from trcore import deadlock_free
from trrouters import BaseRouter, ModelIdentity
from trsched.errors import ConfigError
from trsched.models.vocabulary import Vocabulary
from trsched.plan.check_routers import Unchecked, open_routers
from trsched.plan.config import AUTO, GroupConfig, ProfileModel
from trsched.plan.gpu_memory import RankMemory, free_gpu_memory, tokens_that_fit
from trsched.plan.kv_budget import KvPlan, split_kv_budget
from trsched.plan.model_facts import ModelFacts, model_facts
from trsched.plan.modes import in_mode
from trsched.plan.plan_lines import plan_lines

_RECORD_OVERHEAD = 512
_LARGEST_INBOX = 1 << 28


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """What a group will be.

    paths: models' files and folders (None for models without).
    """

    config: GroupConfig
    vocabularies: tuple[Vocabulary, ...]
    paths: tuple[Path | None, ...]
    identities: tuple[ModelIdentity, ...]
    routers: tuple[BaseRouter, ...]
    kv: KvPlan
    max_active: int
    rank_memory: tuple[RankMemory, ...]

    @property
    def degrades(self) -> bool:
        """Whether requests go on without a model that died.

        Pairs only: who has a request is certain there, whatever order models' reports come in.
        """
        may = self.config.on_peer_death == "degrade" and self.routers[0].degradable
        return may and len(self.config.models) == 2

    @property
    def inbox_bytes(self) -> int:
        """For every request its admission, one hand-off and its release.

        A full inbox only holds its senders up.
        """
        wanted = self.max_active * 2 * (8 * self.kv.context + _RECORD_OVERHEAD) + (1 << 16)
        return min(wanted, _LARGEST_INBOX)

    def lines(self) -> list[str]:
        """The plan for people: memory, batches, routing."""
        return plan_lines(self.config, self.kv, self.max_active, self.rank_memory)


@dataclass(frozen=True, slots=True)
class Checked:
    """What `check` found.

    kv, max_active: None where a part of `unchecked` would be needed.
    """

    config: GroupConfig
    models: tuple[ModelFacts, ...]
    routers: tuple[BaseRouter, ...]
    kv: KvPlan | None
    max_active: int | None
    unchecked: tuple[Unchecked, ...]

    @property
    def rank_memory(self) -> tuple[RankMemory, ...]:
        """Memory on GPUs; empty unless it is known of all models that use some."""
        if not all(model.rank_memory for model in self.models):
            return ()
        return tuple(rank for model in self.models for rank in model.rank_memory)

    def lines(self) -> list[str]:
        """The plan for people, as far as it goes."""
        return plan_lines(self.config, self.kv, self.max_active, self.rank_memory)


def check_group(config: GroupConfig) -> GroupPlan:
    """Raises ConfigError naming the field for anything that could not be served.

    The plan's configuration is the one that `config.mode` stands for, with `kv_memory` in bytes.
    """
    return plan_of(check(config))


def plan_of(checked: Checked) -> GroupPlan:
    """Raises ConfigError naming the first field that could not be checked."""
    for first in checked.unchecked:
        raise ConfigError(first.field, first.message)
    assert checked.kv is not None
    assert checked.max_active is not None
    return GroupPlan(
        checked.config,
        tuple(model.vocabulary for model in checked.models if model.vocabulary is not None),
        tuple(model.path for model in checked.models),
        tuple(model.identity for model in checked.models),
        checked.routers,
        checked.kv,
        checked.max_active,
        checked.rank_memory,
    )


def check(config: GroupConfig) -> Checked:
    """Check what can be checked with the files and the hardware that are here.

    Raises ConfigError naming the field that is wrong; what is not here is in `unchecked`.
    """
    config = in_mode(config)
    models = tuple(model_facts(model, f"models[{i}]") for i, model in enumerate(config.models))
    unchecked = [
        Unchecked(f"models[{i}].path", model.unchecked, on_hub=True)
        for i, model in enumerate(models)
        if model.unchecked is not None
    ]
    _check_vocabularies(config, models)
    _check_context(config, models)
    routers, not_built = open_routers(
        config,
        next((model.size for model in models if model.size), 0),
        tuple(model.identity for model in models),
    )
    unchecked += not_built
    kv = max_active = None
    if all(model.kv_bytes_per_token for model in models):
        config, no_gpu = _with_kv_memory(config, models)
        unchecked += no_gpu
        if config.kv_bytes is not None:
            per_token = [model.kv_bytes_per_token for model in models]
            kv = split_kv_budget(config.kv_bytes, per_token, config.context, config.max_active)
            max_active = config.max_active or kv.sequences
            _check_thresholds(config, kv, max_active)
    return Checked(config, models, routers, kv, max_active, tuple(unchecked))


def _check_vocabularies(config: GroupConfig, models: tuple[ModelFacts, ...]) -> None:
    """All that are known are the same; then what ends a text of one model ends any response."""
    known = [(i, model.vocabulary) for i, model in enumerate(models) if model.vocabulary]
    for i, vocabulary in known:
        j, first = known[0]
        if vocabulary.fingerprint != first.fingerprint:
            raise ConfigError(
                f"models[{i}]",
                f"{config.models[i].name!r} and {config.models[j].name!r} have different "
                f"vocabularies ({vocabulary.fingerprint} and {first.fingerprint}): "
                "token-level routing needs models of one tokenizer" + _about_deferral_rows(config),
            )
    sized = [(i, model.size) for i, model in enumerate(models) if model.size]
    for i, size in sized:
        j, first_size = sized[0]
        if size != first_size:
            raise ConfigError(
                f"models[{i}]",
                f"{config.models[i].name!r} has {size} rows of logits and "
                f"{config.models[j].name!r} {first_size}: a token of one could be none of the "
                "other" + _about_deferral_rows(config),
            )
    ends = frozenset().union(*(vocabulary.stop_ids for _, vocabulary in known))
    for _, vocabulary in known:
        vocabulary.stop_ids = ends


def _about_deferral_rows(config: GroupConfig) -> str:
    names = [
        repr(model.name)
        for model in config.models
        if not isinstance(model, ProfileModel) and model.deferral_row
    ]
    if not names:
        return ""
    return f" (the last token of {' and '.join(names)} was taken for its deferral row)"


def _check_context(config: GroupConfig, models: tuple[ModelFacts, ...]) -> None:
    for model, facts in zip(config.models, models, strict=True):
        if facts.context_length and config.context > facts.context_length:
            raise ConfigError(
                "context",
                f"{config.context} tokens, but {model.name!r} was made for {facts.context_length}",
            )


def _with_kv_memory(
    config: GroupConfig, models: tuple[ModelFacts, ...]
) -> tuple[GroupConfig, list[Unchecked]]:
    """`kv_memory: auto` as bytes: what the GPUs have left."""
    if config.kv_memory != AUTO:
        return config, []
    for i, facts in enumerate(models):
        if not facts.rank_memory and facts.unchecked is not None:
            return config, []  # its weights will say once they are here
        if not facts.rank_memory:
            raise ConfigError(
                "kv_memory", f"auto: the size of the weights of models[{i}] on a GPU is not known"
            )
    free = free_gpu_memory()
    if not free:
        message = "auto: there is no CUDA GPU here whose memory could be divided: give a size"
        return config, [Unchecked("kv_memory", message)]
    tokens = tokens_that_fit(free, [rank for facts in models for rank in facts.rank_memory])
    size = tokens * sum(facts.kv_bytes_per_token for facts in models)
    return changed(config, kv_memory=size), []


def _check_thresholds(config: GroupConfig, kv: KvPlan, max_active: int) -> None:
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
