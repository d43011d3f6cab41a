"""Forwards that a GPU replays; on a CPU they are called as they are."""

from __future__ import annotations

import pytest
import torch

from trrouters.algorithms.captured_forward import CapturedForward


def test_on_a_cpu_the_forward_is_called() -> None:
    calls = []

    def forward(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        calls.append(len(a))
        return a + b

    captured = CapturedForward(forward)
    for batch in (1, 3, 3):
        ones = torch.ones(batch, 2)
        assert torch.equal(captured(ones, ones), 2 * ones)
    assert calls == [1, 3, 3]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA GPU here")
def test_on_a_gpu_a_replay_computes_what_the_forward_does() -> None:
    calls = []

    def forward(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        calls.append(len(a))
        return (a @ b.T).softmax(dim=-1).amax(dim=-1)

    captured = CapturedForward(forward, largest=8)
    weights = torch.randn(5, 7, device="cuda")
    for batch in (1, 4, 1, 4, 8, 9, 4):
        rows = torch.randn(batch, 7, device="cuda")
        assert torch.allclose(captured(rows, weights), forward(rows, weights))
    made = len(calls)
    captured(torch.randn(4, 7, device="cuda"), weights)
    assert len(calls) == made  # replayed
    captured(torch.randn(9, 7, device="cuda"), weights)
    assert len(calls) == made + 1  # too large to be captured
