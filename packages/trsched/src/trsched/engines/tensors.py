"""What an engine on the host computed, as what routers read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray


def to_tensors() -> Callable[[NDArray[Any]], Any]:
    """Makes a tensor of an array, sharing its memory.

    Without torch it gives back the array: routers that read tensors are refused then, when the
    group is checked. (torch here runs routers' small forwards only: two threads take several times
    longer.)
    """
    try:
        import torch
    except ImportError:
        return lambda array: array
    torch.set_num_threads(1)
    return torch.from_numpy
