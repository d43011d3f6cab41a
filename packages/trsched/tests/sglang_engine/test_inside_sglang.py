"""What the engine relies on of SGLang's inside is all in the contract, and its absence is told."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from trsched.engines import sglang as package
from trsched.engines.sglang import contract
from trsched.errors import EngineError


def test_the_installed_release_has_it_all() -> None:
    contract.check_version()
    contract.check_names()


def test_every_import_is_in_the_contract() -> None:
    imported = set()
    for path in Path(package.__path__[0]).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sglang"):
                imported |= {(node.module, alias.name) for alias in node.names}
    assert len(imported) > 15
    known = {
        (module, name.partition(".")[0])
        for module, names in contract.NAMES.items()
        for name in names
    }
    assert imported <= known


def test_missing_names_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from sglang.srt.managers.schedule_batch import Req
    from sglang.srt.mem_cache import common

    monkeypatch.delattr(Req, "reset_for_retract")
    monkeypatch.delattr(common, "release_kv_cache")
    with pytest.raises(EngineError) as caught:
        contract.check_names()
    for name in ("schedule_batch.Req.reset_for_retract", "common.release_kv_cache"):
        assert name in str(caught.value)


def test_another_signature_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from sglang.srt.managers.schedule_policy import PrefillAdder

    monkeypatch.setattr(PrefillAdder, "_commit_prefill_admission", lambda self, req: None)
    with pytest.raises(EngineError, match=r"_commit_prefill_admission\(admission\)"):
        contract.check_names()


def test_a_scheduler_without_an_attribute_is_told() -> None:
    with pytest.raises(EngineError, match=r"Scheduler\(\)\.tree_cache"):
        contract.check_scheduler(object())
