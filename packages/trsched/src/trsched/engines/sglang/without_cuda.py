"""What must be done before SGLang is imported on a machine without CUDA."""

from __future__ import annotations

from importlib.util import find_spec

import torch

from trsched.errors import EngineError

_IMPORTED = ("triton", "sgl_kernel")
"""By SGLang, wherever it runs; their wheels are for CUDA."""


def prepare_without_cuda() -> None:
    """Put in the source tree's stand-ins for what SGLang lacks here; nothing where there is CUDA.

    Call it in every process before SGLang, or transformers beside SGLang, is imported. Raises
    EngineError where neither the stand-ins nor what they stand for can be imported.
    """
    if torch.cuda.is_available():
        return
    try:
        import sglang_cpu_shims
    except ImportError as error:
        if all(find_spec(name) is not None for name in _IMPORTED):
            return
        raise EngineError(
            "the sglang engine needs CUDA, and there is none here; "
            "for tests on a CPU, docs/sglang.md of the source tree says how"
        ) from error
    sglang_cpu_shims.install()
