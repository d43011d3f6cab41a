"""A router's forward on a GPU, replayed from CUDA graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from trrouters.route_result import Tensor

_WARM_UP = 3


class CapturedForward:
    """`forward`; on a GPU from a graph for each batch size, captured when the size first occurs.

    A router is a few dozen small kernels, and launching them one by one takes longer than they run
    (TokenRouter, arXiv 2610.12242, section 4). A result holds until the next call.

    Args:
        forward: of tensors whose first dimension is the batch, to a tensor; it may do nothing but
            launch kernels.
        largest: batches above it are not captured.
    """

    def __init__(self, forward: Callable[..., Tensor], largest: int = 128) -> None:
        self._forward = forward
        self._largest = largest
        self._captures: dict[Sequence[object], _Capture] = {}

    def __call__(self, *inputs: Tensor) -> Tensor:
        """The forward of `inputs`."""
        if not inputs[0].is_cuda or len(inputs[0]) > self._largest:
            return self._forward(*inputs)
        kind = tuple((each.shape, each.dtype, each.device) for each in inputs)
        capture = self._captures.get(kind)
        if capture is None:
            capture = self._captures[kind] = _Capture(self._forward, inputs)
        return capture.replay(inputs)


class _Capture:
    """One graph with the memory that it reads and writes."""

    def __init__(self, forward: Callable[..., Tensor], inputs: Sequence[Tensor]) -> None:
        import torch

        self._inputs = [each.clone() for each in inputs]
        current = torch.cuda.current_stream()
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(current)
        with torch.cuda.stream(side):  # libraries choose and load their kernels, not in the graph
            for _ in range(_WARM_UP):
                forward(*self._inputs)
        current.wait_stream(side)
        self._graph: Any = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
            self._output = forward(*self._inputs)

    def replay(self, inputs: Sequence[Tensor]) -> Tensor:
        for kept, given in zip(self._inputs, inputs, strict=True):
            kept.copy_(given)
        self._graph.replay()
        return self._output
