"""An engine on the host without torch: arrays stay arrays."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from trsched.engines.tensors import to_tensors


def test_without_torch_arrays_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    tokens = np.array([3, 5], dtype=np.int64)
    assert to_tensors()(tokens) is tokens


def test_with_torch_memory_is_shared() -> None:
    torch = pytest.importorskip("torch", reason="trrouters[torch] is not installed")
    tokens = np.array([3, 5], dtype=np.int64)
    made = to_tensors()(tokens)
    assert isinstance(made, torch.Tensor)
    tokens[0] = 7
    assert made.tolist() == [7, 5]
