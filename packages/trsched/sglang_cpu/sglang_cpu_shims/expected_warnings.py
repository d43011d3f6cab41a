"""What SGLang says of every machine without CUDA: nothing to who asked for a CPU."""

from __future__ import annotations

import logging
import warnings

_WARNED = (
    "Triton is not supported on current platform",
    "Only CUDA, HIP and XPU support AWQ",
    "Only CUDA, MUSA and NPU support GGUF",
)
_LOGGED = {
    "sglang.kernels.jit.utils.arch": "Cannot detect CUDA architecture",
    "sglang.srt.arg_groups.attention_hook": "Cuda graph is disabled because of using torch native",
    "sglang.srt.distributed.bootstrap": "init_cpu_threads_env and shared memory based AllReduce",
    "sglang.srt.models.registry": "Ignore import error when loading",  # of models for other kernels
    "sglang.srt.utils.common": "SGLANG_CPU_OMP_THREADS_BIND is set",
    "sglang.srt.utils.numa_utils": "The total number of ranks",
}
"""By logger, how the message begins."""


def silence() -> None:
    """Drop these messages and no others."""
    for begins in _WARNED:
        warnings.filterwarnings("ignore", begins, UserWarning)
    for logger, begins in _LOGGED.items():
        logging.getLogger(logger).addFilter(_Beginning(begins))


class _Beginning(logging.Filter):
    """Drops messages that begin so."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def filter(self, record: logging.LogRecord) -> bool:
        return not record.getMessage().startswith(self._text)
