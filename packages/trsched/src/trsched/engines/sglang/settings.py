"""What an SGLang engine is opened with, and SGLang's own arguments that follow from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trrouters import Need
from trsched.errors import ConfigError


@dataclass(frozen=True, slots=True)
class SglangSettings:
    """One model, or one tensor-parallel rank of it.

    model_path: a folder, or a hub name.
    sequences: most at once.
    context: tokens a sequence can hold.
    kv_tokens: tokens the KV pool holds over all sequences (as many ranks, as many pools of that
        size, each with its part of the heads).
    gpu: the rank's GPU, as CUDA numbers them; of no meaning on a CPU.
    dist_port: where the ranks meet, the same for all of them and free on this host.
    extra_rows: rows of the LM head beyond the vocabulary (Co-LLM's deferral row).
    server_args: more of SGLang's arguments by field name of its ServerArgs.
    """

    model_path: str
    sequences: int
    context: int
    kv_tokens: int
    tp_size: int = 1
    tp_rank: int = 0
    gpu: int = 0
    dist_port: int = 0
    dtype: str = "auto"
    load_format: str = "auto"
    extra_rows: int = 0
    server_args: Mapping[str, Any] = field(default_factory=dict)


def server_arguments(
    settings: SglangSettings, needs: frozenset[Need], *, cuda: bool
) -> dict[str, Any]:
    """Fields of SGLang's ServerArgs. Raises ConfigError for one that is not the user's to set."""
    ours: dict[str, Any] = {
        "model_path": settings.model_path,
        "context_length": settings.context,
        "max_running_requests": settings.sequences,
        "tp_size": settings.tp_size,
        "dtype": settings.dtype,
        "load_format": settings.load_format,
        "pp_size": 1,
        "dp_size": 1,
        "speculative_algorithm": None,
        "skip_tokenizer_init": True,
        "watchdog_timeout": _NEVER,  # it would end the process above this one
        "disable_overlap_schedule": True,  # a token is known before it is decided whose it is
        "enable_mixed_chunk": True,  # what decodes and what reads a prompt share one forward
        "schedule_policy": "fcfs",
        "sampling_backend": "pytorch",  # the one that takes a seed for each request
        "return_hidden_states_mode": "last" if "hidden_states" in needs else None,
    }
    defaults: dict[str, Any] = {
        "page_size": 1,
        "random_seed": 0,
        "log_level": "warning",
    }
    if cuda:
        ours["device"] = "cuda"
        defaults |= {
            "cuda_graph_bs_decode": graph_batch_sizes(settings.sequences),
            "mem_fraction_static": 0.97,  # how much KV there is, the group's plan says
        }
    else:
        ours["device"] = "cpu"
        defaults |= {
            "attention_backend": "torch_native",
            "disable_custom_all_reduce": True,
            "mem_fraction_static": 0.1,
        }
    for name in settings.server_args:
        if name in ours or name == "max_total_tokens":
            raise ConfigError(f"server_args.{name}", "is set by the engine itself")
    arguments = {**defaults, **settings.server_args, **ours}
    spare = (arguments["page_size"] + 1) * (settings.sequences + 1)
    arguments["max_total_tokens"] = settings.kv_tokens + spare
    return arguments


_NEVER = 1e9
"""Seconds."""


def graph_batch_sizes(sequences: int) -> list[int]:
    """Batch sizes to capture CUDA graphs for: each up to 64, then every eighth.

    SGLang captures 1, 2, 4, 8, 12, 16, 24, … and pads a batch to the next. Batches of a routed
    model are often small and of any size (delayed batching starts at a threshold), so that the
    padding would cost up to half of the rows.
    """
    sizes = [*range(1, min(sequences, 64) + 1), *range(72, sequences + 1, 8)]
    return sizes if sizes[-1] == sequences else [*sizes, sequences]
