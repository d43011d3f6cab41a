"""`trserve profile` on engines whose time is virtual, so that what it finds is exact."""

from __future__ import annotations

import pytest

from trsched.engines.clock import VirtualClock
from trsched.engines.profile import ProfileEngine
from trsched.plan.config import ProfileModel

CONFIG = """
name: simulated
models:
  - {engine: profile, name: small, step_ms: [2.0, 2.5, 3.0, 3.5], extend_token_ms: 0.125}
  - {engine: profile, name: large, step_ms: [8.0, 8.0, 9.0, 11.0, 15.0], extend_token_ms: 0.5}
router: {name: bernoulli, settings: {p: 0.2}}
context: 64
overlap: true
kv_memory: 1MiB
"""


class CountingEngine(ProfileEngine):
    """A simulated engine that must have no sequences when it is closed."""

    closed = False

    def close(self) -> None:
        assert self.capacity().sequences_used == 0
        self.closed = True


class VirtualEngines:
    """Stands in for `open_engine`; all engines share one clock."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.opened: list[CountingEngine] = []
        self.kind = CountingEngine

    def __call__(self, plan, index, report, needs=None) -> ProfileEngine:
        model = plan.config.models[index]
        assert isinstance(model, ProfileModel)
        engine = self.kind(
            model,
            plan.vocabularies[index].fingerprint,
            index=index,
            sequences=plan.kv.sequences,
            context=plan.kv.context,
            clock=self.clock,
        )
        self.opened.append(engine)
        return engine


@pytest.fixture
def virtual_engines(monkeypatch) -> VirtualEngines:
    engines = VirtualEngines()
    monkeypatch.setattr("trserve.cli.commands.profile.open_engine", engines)
    monkeypatch.setattr("trserve.cli.commands.profile.WallClock", lambda: engines.clock)
    return engines


@pytest.fixture
def simulated(tmp_path):
    """A configuration of two simulated models."""
    path = tmp_path / "simulated.yaml"
    path.write_text(CONFIG)
    return path
