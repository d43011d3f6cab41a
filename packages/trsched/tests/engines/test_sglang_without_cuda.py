"""Without CUDA, SGLang runs on the source tree's stand-ins only, and a wheel has none."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
import torch

from trsched.engines.sglang.without_cuda import prepare_without_cuda
from trsched.errors import EngineError


@pytest.fixture(autouse=True)
def _no_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def test_no_stand_ins_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sglang_cpu_shims", None)
    monkeypatch.setattr("trsched.engines.sglang.without_cuda.find_spec", lambda name: None)
    with pytest.raises(EngineError, match="needs CUDA, and there is none here"):
        prepare_without_cuda()


def test_what_they_stand_for_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sglang_cpu_shims", None)
    monkeypatch.setattr("trsched.engines.sglang.without_cuda.find_spec", lambda name: name)
    prepare_without_cuda()


def test_stand_ins_are_put_in(monkeypatch: pytest.MonkeyPatch) -> None:
    put_in = []
    shims = ModuleType("sglang_cpu_shims")
    shims.install = lambda: put_in.append(True)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "sglang_cpu_shims", shims)
    prepare_without_cuda()
    assert put_in


def test_nothing_is_asked_for_where_there_is_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setitem(sys.modules, "sglang_cpu_shims", None)
    prepare_without_cuda()
