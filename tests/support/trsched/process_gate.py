"""The gate of `GateEngine` for an engine in another process: cells in a file that both map."""

from __future__ import annotations

import math
import mmap
import os
import signal
import time
from collections.abc import Callable, Sequence
from ctypes import Structure, c_double
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.support.trsched.gate_engine import Gate
from tests.support.waiting import until
from trsched.engines import open_engine
from trsched.engines.base import Engine, StepResult
from trsched.group import Group
from trsched.hosts.process_host import ProcessHost
from trsched.plan.check import check_group
from trsched.plan.config import GroupConfig

_FOLDER = "TEST_GATES"


class Cells(Structure):
    """entered: written by the engine. permits: written by the test, used up by the engine."""

    _fields_: ClassVar = (("entered", c_double), ("permits", c_double))

    entered: float
    permits: float


def _cells(path: Path) -> Cells:
    with path.open("r+b") as file:
        return Cells.from_buffer(mmap.mmap(file.fileno(), 0))


def gate_this_process() -> None:
    """In the child: every step of the engine, at rank 0, waits for a permit."""
    plain_open = open_engine.open_engine

    def open_gated(*args: Any, rank: int = 0, **kwargs: Any) -> Engine:
        engine = plain_open(*args, rank=rank, **kwargs)
        if rank == 0:
            _gate(engine, Path(os.environ[_FOLDER]) / engine.spec.name)
        return engine

    open_engine.open_engine = open_gated


def _gate(engine: Engine, path: Path) -> None:
    cells, plain_step = _cells(path), engine.step

    def step(seqs: Sequence[int]) -> StepResult:
        cells.entered += 1
        while cells.permits <= 0:
            time.sleep(1e-3)
        cells.permits -= 1
        return plain_step(seqs)

    engine.step = step  # type: ignore[method-assign]


class ProcessGate:
    """See `Gate`, which counts from here on; `break_down` kills the process."""

    def __init__(self, index: int, host: ProcessHost, cells: Cells) -> None:
        self._index = index
        self._host = host
        self._cells = cells
        self._before = cells.entered

    @property
    def entered(self) -> float:
        return self._cells.entered - self._before

    @property
    def used(self) -> int:
        return self._host.shared.stats[self._index].sequences_used

    def hold(self) -> None:
        self._cells.permits = 0

    def let_go(self, steps: float = math.inf) -> None:
        self._cells.permits += steps

    def break_down(self) -> None:
        os.kill(self._host.process_ids[self._index][0], signal.SIGKILL)

    def wait_for(self, condition: Callable[[Gate], bool]) -> None:
        until(lambda: condition(self))


def process_gate_group(
    config: GroupConfig, folder: Path, patch: pytest.MonkeyPatch
) -> tuple[Group, list[Gate]]:
    """A started group with its models in processes, all gates open. folder: for the gates."""
    patch.setenv(_FOLDER, str(folder))
    patch.syspath_prepend(str(Path(__file__).with_name("gated_child")))
    for model in config.models:
        (folder / model.name).write_bytes(bytes(Cells(0, math.inf)))
    plan = check_group(config)
    host = ProcessHost.open(plan, lambda line: None)
    return Group(plan, host), new_gates(config, host, folder)


def new_gates(config: GroupConfig, host: ProcessHost, folder: Path) -> list[Gate]:
    """Of a group's processes: also of one that has served, once nothing runs in it."""
    return [
        ProcessGate(index, host, _cells(folder / model.name))
        for index, model in enumerate(config.models)
    ]
