"""torchvision built for CUDA beside a torch that isn't: its operators, declared.

Its extension module cannot be loaded there, and its Python code registers shapes for operators
that nobody has declared then. Declaring them is enough: SGLang imports transforms only.
"""

from __future__ import annotations

import importlib.util
from typing import Any

_OPERATORS = (
    "nms",
    "qnms",
    "roi_align",
    "_roi_align_backward",
    "ps_roi_align",
    "_ps_roi_align_backward",
    "roi_pool",
    "_roi_pool_backward",
    "ps_roi_pool",
    "_ps_roi_pool_backward",
    "qroi_align",
    "deform_conv2d",
    "_deform_conv2d_backward",
)
_libraries: list[Any] = []  # operators live as long as their library


def declare() -> None:
    """Do so, unless torch is built for CUDA, too, or torchvision isn't installed."""
    import torch

    if torch.version.cuda is not None or importlib.util.find_spec("torchvision") is None:
        return
    operators: Any = torch.library
    library = operators.Library("torchvision", "FRAGMENT")
    for name in _OPERATORS:
        library.define(f"{name}(Tensor a) -> Tensor")
    _libraries.append(library)
