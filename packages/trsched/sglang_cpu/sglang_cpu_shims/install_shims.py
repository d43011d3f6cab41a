"""SGLang on a machine without CUDA: stand-ins for what it imports and never calls there.

Each is put in only where the real module is missing, and anything in it raises when called. The
one kernel that is called on a CPU, the hash behind seeded sampling, is computed.
"""

from __future__ import annotations

import importlib.util
import os
from functools import cache

from sglang_cpu_shims import (
    expected_warnings,
    missing_kernels,
    missing_triton,
    torchvision_operators,
)


@cache
def install() -> None:
    """Make `import sglang` possible here; nothing where there is CUDA.

    Call it in every process before SGLang, or transformers beside SGLang, is imported.
    """
    import torch

    if torch.cuda.is_available():
        return
    os.environ.setdefault("SGLANG_USE_CPU_ENGINE", "1")
    os.environ.setdefault("TORCH_COMPILE_DISABLE", "1")  # its CPU compiler needs a real triton
    if "OMP_NUM_THREADS" not in os.environ:
        # Each model has a process, and they share the cores: threads that wait for each other
        # while others compute make a step ten times slower.
        torch.set_num_threads(1)
    if importlib.util.find_spec("triton") is None:
        missing_triton.install()
    if importlib.util.find_spec("sgl_kernel") is None:
        missing_kernels.install()
    torchvision_operators.declare()
    expected_warnings.silence()
