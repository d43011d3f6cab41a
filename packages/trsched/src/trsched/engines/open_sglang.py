"""A planned model on SGLang; SGLang and CUDA are touched only here."""

from __future__ import annotations

from importlib.util import find_spec

from trrouters import Need
from trsched.engines.base import Engine
from trsched.errors import ConfigError, NotInstalledError
from trsched.plan.check import GroupPlan
from trsched.plan.sglang_model import SglangModel


def require_sglang(field: str) -> None:
    """Raises ConfigError naming `field` where SGLang is not installed."""
    if find_spec("sglang") is None:
        raise NotInstalledError(field, "sglang", "sglang")


def open_sglang(
    plan: GroupPlan, index: int, needs: frozenset[Need], *, rank: int, meeting_port: int
) -> Engine:
    """Load rank `rank` of model `index`. Raises EngineError, or ConfigError without SGLang.

    meeting_port: of this host, where the model's ranks find one another; for one rank 0.
    """
    model = plan.config.models[index]
    folder = plan.paths[index]
    assert isinstance(model, SglangModel)
    assert folder is not None
    if model.tp > 1 and not meeting_port:  # it would wait for the others for ever
        raise ConfigError(
            f"models[{index}].tp", f"{model.tp} ranks need a process each, and here is only one"
        )
    require_sglang(f"models[{index}].engine")
    from trsched.engines.sglang.engine import SglangEngine
    from trsched.engines.sglang.settings import SglangSettings

    more = {} if model.quantization is None else {"quantization": model.quantization}
    settings = SglangSettings(
        model_path=str(folder),
        sequences=plan.kv.sequences,
        context=plan.kv.context,
        kv_tokens=plan.kv.tokens,
        tp_size=model.tp,
        tp_rank=rank,
        gpu=model.rank_gpus[rank],
        dist_port=meeting_port,
        dtype=model.dtype,
        load_format=model.load_format,
        extra_rows=int(model.deferral_row),
        server_args={**more, **model.server_args},
    )
    return SglangEngine(
        model.name, settings, plan.vocabularies[index].fingerprint, index=index, needs=needs
    )
