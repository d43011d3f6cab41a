"""The pairs of models that `trrouters collect` can train routers for: presets and files."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from msgspec.structs import replace as changed

from trrouters import Need
from trrouters.training.pair import PairError, TrainingPair
from trsched.engines.base import Engine
from trsched.engines.fetch import fetch_and_check
from trsched.engines.open_engine import open_engine
from trsched.errors import ConfigError, EngineError
from trsched.plan.check import GroupPlan
from trsched.plan.config import RouterConfig
from trsched.plan.sglang_model import SglangModel
from trsched.request import SamplingParams
from trserve.presets import preset_names
from trserve.server.deployment import load_deployment
from trserve.server.text.tokenizer import Tokenizer

_NEEDS: tuple[frozenset[Need], frozenset[Need]] = (
    frozenset({"logits", "hidden_states", "token_embedding"}),
    frozenset({"logits"}),
)
"""What training reads of the small and of the large model."""


def open_training_pair(name: str, *, sequences: int, context: int) -> TrainingPair:
    """Load the first two models of a preset or of a configuration file; its router is ignored.

    Raises PairError naming what is wrong.
    """
    try:
        return _open(name, sequences, context)
    except (ConfigError, EngineError) as error:
        raise PairError(str(error)) from error


def _open(name: str, sequences: int, context: int) -> TrainingPair:
    known = name in preset_names()
    deployment = load_deployment(preset=name) if known else load_deployment(config=Path(name))
    group = deployment.group
    if len(group.models) < 2:
        raise ConfigError("models", "training a router takes a small and a large model")
    if all(isinstance(model, SglangModel) for model in group.models[:2]):
        raise ConfigError(
            "models",
            "a process has room for one model on SGLang: see docs/sglang.md for collecting",
        )
    group = changed(
        group,
        models=group.models[:2],
        mode="routed",
        delayed_batching="off",
        router=RouterConfig("fixed", {"model": 0}),  # the one to be trained isn't there yet
        on_router_error="fail",
        context=context,
        max_active=sequences,
        kv_memory="64GiB",  # no more is taken than `sequences` of `context` tokens need
    )
    plan = fetch_and_check(group, lambda line: None)
    small, large = plan.identities
    tokenizer = Tokenizer(plan.vocabularies[0])
    with ExitStack() as opened:
        engines = []
        for index, needs in enumerate(_NEEDS):
            engines.append(_engine(plan, index, needs))
            opened.callback(engines[-1].close)
        opened.pop_all()  # both are open: the pair closes them
    return TrainingPair(
        models=(small, large),
        small=engines[0],
        large=engines[1],
        greedy=SamplingParams(temperature=0.0),
        sequences=sequences,
        context=context,
        stop_ids=plan.vocabularies[0].stop_ids,
        prompt_ids=lambda prompt: tokenizer.encode_chat_now([{"role": "user", "content": prompt}]),
    )


def _engine(plan: GroupPlan, index: int, needs: frozenset[Need]) -> Engine:
    model = plan.config.models[index]
    missing = sorted(needs - model.provides)
    if missing:
        raise PairError(
            f"the {model.engine_name} engine of {model.name!r} does not show {', '.join(missing)}"
        )
    return open_engine(plan, index, lambda line: None, needs)
