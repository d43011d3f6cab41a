"""Subservers in processes: what only processes can do is to end at any moment."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.trsched.groups import profile_config, request
from tests.support.waiting import until
from trcore import remove_stale_segments
from trrouters import BaseRouter, RouterContext
from trrouters.algorithms.bernoulli import Bernoulli
from trsched.errors import ConfigError
from trsched.group import Group
from trsched.hosts.process_host import ProcessHost
from trsched.plan.config import ProfileModel

BUSY: dict[str, Any] = {"eos_rate": 0.0, "step_ms": 0.2, "max_active": 8}


@contextmanager
def process_group(router: str = "bernoulli", **fields: Any) -> Iterator[tuple[Group, list[str]]]:
    lines: list[str] = []
    group = Group.open(profile_config(router, processes=True, **fields), report=lines.append)
    try:
        yield group, lines
    finally:
        group.close()


def process_ids(group: Group) -> list[list[int]]:
    assert isinstance(group.host, ProcessHost)
    return group.host.process_ids


def is_running(pid: int) -> bool:
    """False for one that has ended, even if nobody has asked for its status yet."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def segments(pids: list[int]) -> list[str]:
    """Names in shared memory that processes with these ids have made."""
    files = [path.name for path in Path("/dev/shm").glob("trcore-*")]
    return [name for name in files if int(name.split("-")[2]) in pids]


def test_every_model_has_its_process_and_all_end_with_the_group() -> None:
    with process_group("me", models=3) as (group, lines):
        pids = [pid for (pid,) in process_ids(group)]
        for index, pid in enumerate(pids):
            assert f"model {index} m{index}: process {pid}" in lines
            assert (
                Path(f"/proc/{pid}/cmdline").read_bytes().count(b"trsched.hosts.subserver_process")
            )
        assert len(segments([os.getpid(), *pids])) == 4
        assert group.submit(request(1, 20)).result()[1].reason == "length"
    assert not any(map(is_running, pids))
    assert segments([os.getpid(), *pids]) == []


@pytest.mark.parametrize("settings", [{}, {"overlap": False}, {"execution": "lockstep"}], ids=str)
@pytest.mark.parametrize("dying", [0, 1])
def test_killed_in_mid_work(dying: int, settings: dict[str, Any]) -> None:
    """At any moment of any step: every request ends, most by the model that is left."""
    config = {**BUSY, "settings": {"p": 0.5}, **settings}
    with process_group("bernoulli", **config) as (group, lines):
        moment = random.Random(str((dying, settings)))
        streams = [group.submit(request(seed, 60)) for seed in range(24)]
        for _ in range(moment.randrange(10, 60)):
            next(iter(streams[0]))
        (pid,) = process_ids(group)[dying]
        os.kill(pid, signal.SIGKILL)
        finals = [stream.result()[1] for stream in streams]
        assert {final.reason for final in finals} <= {"length", "error"}
        assert sum(final.reason == "length" for final in finals) >= 22
        assert any(final.degraded for final in finals)
        until(lambda: group.status().subservers[1 - dying].sequences_used == 0)
        assert [each.alive for each in group.status().subservers] == [dying != 0, dying != 1]
        died = f"model {dying} m{dying} died: process {pid} was killed by SIGKILL"
        assert died in lines
        assert segments([pid]) == []
        again = group.submit(request(99, 20)).result()[1]
        assert (again.reason, again.degraded) == ("length", True)


def test_killed_where_nobody_takes_over() -> None:
    with process_group("me", models=3, **BUSY) as (group, _):
        streams = [group.submit(request(seed, 200)) for seed in range(8)]
        next(iter(streams[0]))
        os.kill(process_ids(group)[1][0], signal.SIGKILL)
        finals = [stream.result()[1] for stream in streams]
        assert {final.reason for final in finals} == {"error"}
        assert {final.error for final in finals} == {"model 1 died"}
        until(lambda: not any(each.sequences_used for each in group.status().subservers[::2]))


def test_signals_that_reach_all_processes_are_for_the_group_alone() -> None:
    """A terminal's Ctrl-C, a service manager's SIGTERM: the group drains, its models serve on."""
    with process_group(**BUSY) as (group, _):
        stream = group.submit(request(1, 100))
        next(iter(stream))
        for (pid,) in process_ids(group):
            os.kill(pid, signal.SIGINT)
            os.kill(pid, signal.SIGTERM)
        assert group.drain(20)
        final = stream.result()[1]
        assert (final.reason, final.degraded) == ("length", False)


PARENT = """
import json, sys, threading
from tests.support.trsched.groups import profile_config, request
from trsched.group import Group

group = Group.open(profile_config("bernoulli", processes=True, step_ms=0.2))  # no __main__ guard
for seed in range(8):
    group.submit(request(seed, 250))
print(json.dumps(group.host.process_ids), flush=True)
{end}
"""
ENDS = {"killed": ("threading.Event().wait()", -signal.SIGKILL), "left": ("sys.exit(3)", 3)}


@pytest.mark.parametrize("end", ENDS)
def test_no_process_outlives_its_group(end: str) -> None:
    """Whatever has become of the process that opened it, a script without any precautions."""
    last_line, status = ENDS[end]
    code = PARENT.format(end=last_line)
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    ) as parent:
        assert parent.stdout is not None
        pids = [pid for (pid,) in json.loads(parent.stdout.readline())]
        if end == "killed":
            parent.kill()
        assert parent.wait(20) == status
    until(lambda: not any(map(is_running, pids)))
    assert segments([parent.pid, *pids]) == []


def test_a_process_that_ends_while_it_loads_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """As by the kernel when memory is short."""
    monkeypatch.setattr("trsched.hosts.child_process._MODULE", "this")  # prints, and ends
    with pytest.raises(ConfigError, match=r"'m.' cannot be loaded: process .* status 0") as caught:
        Group.open(profile_config("bernoulli", processes=True))
    assert caught.value.field in ("models[0]", "models[1]")
    assert segments([os.getpid()]) == []


@pytest.mark.parametrize(
    ("setting", "message"),
    [(1, "unexpected keyword argument 'nonsense'"), (object(), "plain data")],
    ids=["refused by the process", "not to be told to a process"],
)
def test_what_a_process_cannot_use_is_the_configurations_error(
    setting: object, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lenient(name: str, context: RouterContext, settings: object) -> BaseRouter:
        return Bernoulli(context)

    monkeypatch.setattr(
        "trsched.plan.check_routers.create_router", lenient
    )  # in this process alone
    with pytest.raises(ConfigError, match=message) as caught:
        Group.open(profile_config("bernoulli", {"nonsense": setting}, processes=True))
    assert caught.value.field == "router.settings"
    assert segments([os.getpid()]) == []


@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks(ranks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of any engine: the same tokens as without, and a process a rank."""
    expected = []
    with process_group(**BUSY) as (group, _):
        expected = [group.submit(request(seed, 40)).result()[0] for seed in range(4)]
    monkeypatch.setattr(ProfileModel, "ranks", ranks)
    with process_group(**BUSY) as (group, _):
        pids = process_ids(group)
        assert [len(team) for team in pids] == [ranks, ranks]
        streams = [group.submit(request(seed, 40)) for seed in range(4)]
        assert [stream.result()[0] for stream in streams] == expected
    assert not any(is_running(pid) for team in pids for pid in team)


def test_a_models_ranks_die_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProfileModel, "ranks", 2)
    with process_group(**BUSY) as (group, lines):
        streams = [group.submit(request(seed, 60)) for seed in range(8)]
        next(iter(streams[0]))
        leader, follower = process_ids(group)[1]
        os.kill(follower, signal.SIGKILL)
        assert {stream.result()[1].reason for stream in streams} <= {"length", "error"}
        assert [each.alive for each in group.status().subservers] == [True, False]
        died = f"model 1 m1 died: rank 1: process {follower} was killed by SIGKILL"
        assert died in lines
        until(lambda: not is_running(leader))


def test_groups_beside_one_another() -> None:
    """Also opened in threads that end before their groups do."""
    groups: list[Group] = []
    config = profile_config("bernoulli", processes=True)
    openers = [threading.Thread(target=lambda: groups.append(Group.open(config))) for _ in range(2)]
    for opener in openers:
        opener.start()
    for opener in openers:
        opener.join(60)
    for group in groups:
        assert group.submit(request(1, 20)).result()[1].reason == "length"
        group.close()
    assert len(groups) == 2
    assert remove_stale_segments() == []
