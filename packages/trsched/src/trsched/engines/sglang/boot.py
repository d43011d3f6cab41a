"""Starting and ending SGLang in this process."""

from __future__ import annotations

import os
from typing import Any

from sglang.srt.distributed.parallel_state import (
    abort_distributed_environment,
    destroy_distributed_environment,
    destroy_model_parallel,
)
from sglang.srt.runtime_context import SpawnRanks, publish, reset_context, spawn_world_rank
from sglang.srt.server_args import PortArgs, ServerArgs
from tqdm import tqdm

from trsched.engines.sglang.contract import check_scheduler
from trsched.engines.sglang.scheduler import RoutedScheduler
from trsched.engines.sglang.settings import SglangSettings
from trsched.errors import EngineError

_running = False


def boot(settings: SglangSettings, arguments: dict[str, Any]) -> RoutedScheduler:
    """Load one rank of a model.

    arguments: of SGLang's ServerArgs. Raises EngineError when the model cannot be loaded, and when
    one is open here already: what SGLang knows of itself is global in its process.
    """
    global _running
    if _running:
        raise EngineError("one SGLang engine a process: another is open in this one")
    _running = True
    try:
        scheduler = _open(settings, arguments)
        check_scheduler(scheduler)
        _check_capacity(scheduler, settings)
    except (OSError, RuntimeError, ValueError) as error:
        shut_down(settings)
        raise EngineError(f"SGLang could not load {settings.model_path}: {error}") from error
    except BaseException:
        shut_down(settings)
        raise
    return scheduler


def _open(settings: SglangSettings, arguments: dict[str, Any]) -> RoutedScheduler:
    if arguments["device"] == "cpu" and settings.tp_size > 1:
        # SGLang has a NUMA node for each rank, unless it is told which cores a rank is to use.
        cores = sorted(os.sched_getaffinity(0))
        ranks_cores = "|".join([f"{cores[0]}-{cores[-1]}"] * (settings.gpu + 1))
        os.environ.setdefault("SGLANG_CPU_OMP_THREADS_BIND", ranks_cores)
    # Ranks get their calls from us: SGLang's shared memory for that would only be left behind.
    os.environ["SGLANG_USE_MESSAGE_QUEUE_BROADCASTER"] = "0"
    # Models may share GPUs, so that those of one model's ranks have unequal memory left.
    os.environ["SGLANG_ENABLE_TP_MEMORY_INBALANCE_CHECK"] = "0"
    # Of loading weights and capturing graphs, in the log of a server with several such processes.
    # SGLang lets rank 0 show them, whatever tqdm's own setting says.
    tqdm.__init__ = _without_bar
    server_args = ServerArgs(**arguments)
    server_args.resolve_once()
    world_rank = spawn_world_rank(server_args, tp_rank=settings.tp_rank, pp_rank=0)
    ranks = SpawnRanks(world_rank=world_rank, gpu_id=settings.gpu)
    publish(server_args, role="scheduler", ranks=ranks)
    return RoutedScheduler(server_args, _ports(settings), settings.extra_rows)


def shut_down(settings: SglangSettings) -> None:
    """Leave the ranks' groups and forget SGLang's configuration.

    With several ranks, the process is to end then: to leave in order would mean to wait for ranks
    that may be gone.
    """
    global _running
    if settings.tp_size > 1:
        abort_distributed_environment()
        return
    destroy_model_parallel()
    destroy_distributed_environment()
    reset_context()
    _running = False


def _without_bar(self: tqdm[Any], *args: Any, **kwargs: Any) -> None:
    _with_bar(self, *args, **kwargs | {"disable": True})


_with_bar = tqdm.__init__


def _check_capacity(scheduler: RoutedScheduler, settings: SglangSettings) -> None:
    if scheduler.is_hybrid_swa or scheduler.is_hybrid_ssm:
        raise EngineError(
            f"{settings.model_path}: sliding windows and state-space layers cannot be parked"
        )
    if scheduler.max_total_num_tokens < settings.kv_tokens:
        raise EngineError(
            f"{settings.model_path}: there is memory for {scheduler.max_total_num_tokens} tokens "
            f"of KV, not for {settings.kv_tokens}: ask for less kv_memory, or give SGLang more by "
            "server_args.mem_fraction_static"
        )
    if scheduler.max_running_requests < settings.sequences:
        raise EngineError(
            f"{settings.model_path}: SGLang takes {scheduler.max_running_requests} sequences, "
            f"not {settings.sequences}"
        )


def _ports(settings: SglangSettings) -> PortArgs:
    """No sockets but the ranks' meeting point."""
    return PortArgs(
        tokenizer_ipc_name="",
        scheduler_input_ipc_name="",
        detokenizer_ipc_name="",
        nccl_port=settings.dist_port,
        rpc_ipc_name="",
        metrics_ipc_name="",
        tokenizer_worker_ipc_name=None,
        decoupled_spec_ipc_config=None,
    )
