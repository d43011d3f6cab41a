"""What is relied on of SGLang's inside, checked before anything is built on it."""

from __future__ import annotations

import importlib
import inspect
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from trsched.errors import EngineError

SUPPORTED = "0.5.23"
"""This release and its post-releases. The names below are internal and change between releases."""

NAMES: dict[str, tuple[str, ...]] = {
    "sglang.srt.server_args": ("ServerArgs.resolve_once", "PortArgs"),
    "sglang.srt.runtime_context": (
        "SpawnRanks",
        "get_device",
        "publish",
        "reset_context",
        "spawn_world_rank",
    ),
    "sglang.srt.distributed.parallel_state": (
        "abort_distributed_environment",
        "destroy_distributed_environment",
        "destroy_model_parallel",
    ),
    "sglang.srt.managers.scheduler": (
        "Scheduler._add_request_to_queue",
        "Scheduler.flush_cache",
        "Scheduler.get_new_batch_prefill",
        "Scheduler.get_next_batch_to_run",
        "Scheduler.get_num_allocatable_reqs",
        "Scheduler.get_prefill_adder_class",
        "Scheduler.init_invariant_checker",
        "Scheduler.init_ipc_channels",
        "Scheduler.init_schedule_policy",
        "Scheduler.init_tp_model_worker",
        "Scheduler.is_fully_idle",
        "Scheduler.on_idle",
        "Scheduler.process_batch_result",
        "Scheduler.run_batch",
        "Scheduler.update_running_batch",
    ),
    "sglang.srt.managers.scheduler_components.ipc_channels": ("SchedulerIpcChannels",),
    "sglang.srt.managers.scheduler_components.output_sender": ("SenderWrapper",),
    "sglang.srt.managers.schedule_batch": (
        "Req.init_next_round_input",
        "Req.refresh_fill_ids",
        "Req.reset_for_retract",
        "Req.seqlen",
        "ReqKvInfo.cache_protected_len",
        "ReqKvInfo.holds_kv",
        "ReqKvInfo.kv_allocated_len",
        "ReqKvInfo.kv_committed_len",
        "ReqKvInfo.req_pool_idx",
        "ScheduleBatch.init_new",
        "ScheduleBatch.multimodal_inputs",
        "ScheduleBatch.orig_seq_lens",
        "ScheduleBatch.req_pool_indices",
        "ScheduleBatch.req_pool_indices_cpu",
        "ScheduleBatch.sampling_info",
        "ScheduleBatch.seq_lens",
        "ScheduleBatch.seq_lens_cpu",
    ),
    "sglang.srt.managers.schedule_policy": (
        "PrefillAdder._commit_prefill_admission",
        "PrefillAdder._get_running_request_total_token_offset",
        "SchedulePolicy.calc_priority",
    ),
    "sglang.srt.managers.tp_worker": ("TpModelWorker.forward_batch_generation",),
    "sglang.srt.managers.utils": ("GenerationBatchResult",),
    "sglang.srt.managers.overlap_utils": ("FutureMap.stash_bonus_tokens",),
    "sglang.srt.mem_cache.common": ("checkpoint_kv_cache", "release_kv_cache"),
    "sglang.srt.mem_cache.base_prefix_cache": (
        "BasePrefixCache.evictable_size",
        "BasePrefixCache.free_kv_row",
        "BasePrefixCache.lock",
        "BasePrefixCache.unlock",
    ),
    "sglang.srt.model_executor.forward_batch_info": ("ForwardBatch.init_new",),
    "sglang.srt.model_executor.model_runner": ("ModelRunner.forward", "ModelRunner.sample"),
    "sglang.srt.sampling.sampling_batch_info": (
        "SamplingBatchInfo.from_schedule_batch",
        "SamplingBatchInfo.sampling_seed",
    ),
    "sglang.srt.sampling.sampling_params": ("SamplingParams",),
}

PARAMETERS: dict[str, tuple[str, ...]] = {
    "sglang.srt.managers.scheduler:Scheduler.__init__": ("server_args", "port_args"),
    "sglang.srt.managers.scheduler:Scheduler.get_next_batch_to_run": (
        "running_batch",
        "last_batch",
    ),
    "sglang.srt.managers.scheduler:Scheduler._add_request_to_queue": ("req", "is_retracted"),
    "sglang.srt.managers.schedule_policy:PrefillAdder._commit_prefill_admission": (
        "req",
        "admission",
        "mamba_gap_reserve",
    ),
    "sglang.srt.managers.schedule_batch:Req.init_next_round_input": ("tree_cache", "cow_mamba"),
    "sglang.srt.mem_cache.common:release_kv_cache": ("req", "tree_cache", "checkpoint"),
    "sglang.srt.mem_cache.common:checkpoint_kv_cache": ("req", "tree_cache"),
}

SCHEDULER_ATTRIBUTES = (
    "chunked_req",
    "device_module",
    "enable_overlap",
    "future_map",
    "invariant_checker",
    "is_hybrid_ssm",
    "is_hybrid_swa",
    "max_running_requests",
    "max_total_num_tokens",
    "model_config",
    "page_size",
    "req_to_token_pool",
    "schedule_stream",
    "spec_algorithm",
    "token_to_kv_pool_allocator",
    "tp_worker",
    "tree_cache",
    "waiting_queue",
)
"""Set by its constructor: seen on an instance only."""


def check_version() -> None:
    """Raises EngineError when SGLang isn't installed or is another release."""
    try:
        found = version("sglang")
    except PackageNotFoundError as error:
        raise EngineError(
            "the sglang engine needs SGLang: pip install 'trsched[sglang]'"
        ) from error
    if found != SUPPORTED and not found.startswith(f"{SUPPORTED}.post"):
        raise EngineError(
            f"the sglang engine works with SGLang {SUPPORTED}, and {found} is installed: "
            f"pip install 'sglang=={SUPPORTED}'"
        )


def check_names() -> None:
    """Raises EngineError with all names and parameters that SGLang lacks."""
    missing = [
        f"{module}.{name}"
        for module, names in NAMES.items()
        for name in names
        if _find(module, name) is None
    ]
    for target, parameters in PARAMETERS.items():
        module, name = target.split(":")
        found = _find(module, name)
        taken = inspect.signature(found).parameters if callable(found) else {}
        missing += [f"{module}.{name}({p})" for p in parameters if p not in taken]
    _refuse(missing)


def check_scheduler(scheduler: object) -> None:
    """Raises EngineError with all attributes that the built scheduler lacks."""
    absent = [name for name in SCHEDULER_ATTRIBUTES if not hasattr(scheduler, name)]
    _refuse([f"Scheduler().{name}" for name in absent])


def _refuse(missing: list[str]) -> None:
    if missing:
        raise EngineError(
            f"SGLang {version('sglang')} lacks what the sglang engine is built on: "
            + ", ".join(missing)
        )


def _find(module: str, name: str) -> Any:
    try:
        found: Any = importlib.import_module(module)
    except ImportError:
        return None
    for part in name.split("."):
        found = getattr(found, part, _ABSENT)
        if found is _ABSENT:
            return None
    return _PRESENT if found is None else found


_ABSENT = object()
_PRESENT = object()
