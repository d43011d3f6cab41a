"""Engines by configuration; each one's module is imported only when a configuration asks for it."""

from __future__ import annotations

import os
from collections.abc import Callable

from trrouters import Need
from trsched.engines.base import Engine
from trsched.errors import ConfigError
from trsched.models.vocabulary import GgufVocabulary
from trsched.plan.check import GroupPlan
from trsched.plan.config import ProfileModel
from trsched.plan.sglang_model import SglangModel

_AMX = (
    "this llama.cpp is built with AMX, whose code crashes: served without repacked weights, so it "
    "is slower and tokens may depend on the batch; build it anew with CMAKE_ARGS="
    "'-DCMAKE_C_FLAGS=-U__AMX_INT8__ -DCMAKE_CXX_FLAGS=-U__AMX_INT8__' "
    "pip install --force-reinstall --no-cache-dir llama-cpp-python"
)


def open_engine(
    plan: GroupPlan,
    index: int,
    report: Callable[[str], None],
    needs: frozenset[Need] | None = None,
    *,
    rank: int = 0,
    meeting_port: int = 0,
) -> Engine:
    """Load model `index` of a group. Raises EngineError or ConfigError.

    needs: outputs it must show; default: what the model's router reads.
    rank: which part of a model that several processes share.
    meeting_port: where these find one another on this host.
    """
    model = plan.config.models[index]
    vocabulary = plan.vocabularies[index]
    outputs = plan.routers[index].needs if needs is None else needs
    if isinstance(model, ProfileModel):
        from trsched.engines.profile import ProfileEngine

        return ProfileEngine(
            model,
            vocabulary.fingerprint,
            index=index,
            sequences=plan.kv.sequences,
            context=plan.kv.context,
        )
    if isinstance(model, SglangModel):
        from trsched.engines.open_sglang import open_sglang

        return open_sglang(plan, index, outputs, rank=rank, meeting_port=meeting_port)
    from trsched.engines.llamacpp import LlamaCppEngine
    from trsched.models.llamacpp_library import built_with_amx
    from trsched.models.requantize import QuantizeError, cached_requantize

    path = plan.paths[index]
    assert path is not None
    assert isinstance(vocabulary, GgufVocabulary)
    if built_with_amx():
        report(f"model {index} {model.name}: {_AMX}")
    if model.quantize is not None:
        report(f"model {index} {model.name}: {model.quantize} of {path.name}")
        try:
            path = cached_requantize(path, model.quantize)
        except QuantizeError as error:
            raise ConfigError(f"models[{index}].quantize", str(error)) from error
    return LlamaCppEngine(
        model.name,
        path,
        vocabulary,
        index=index,
        sequences=plan.kv.sequences,
        context=plan.kv.context,
        needs=outputs,
        threads=model.threads or len(os.sched_getaffinity(0)),
        gpu_layers=model.gpu_layers,
        batch_tokens=model.batch_tokens,
    )
