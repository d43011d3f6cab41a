"""Memory without a name that processes share, and the lock that dies with its holder."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from ctypes import c_int64

import pytest

from trsched.shared.arena import Arena
from trsched.shared.block import ProcessMutex, SharedBlock

HOLD = """
import sys
from ctypes import c_int64
from trsched.shared.arena import Arena
from trsched.shared.block import ProcessMutex, SharedBlock

block = SharedBlock(int(sys.argv[1]))
cells = Arena(block.memory, is_new=False).take(c_int64 * 2)
with ProcessMutex(block):
    cells[0] += 1
    print("held", flush=True)
    sys.stdin.readline()
    cells[1] += 1
"""


@pytest.fixture
def block():
    block = SharedBlock.create(1 << 12)
    yield block
    block.close()


@pytest.fixture
def holder(block):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(block.descriptor)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        pass_fds=[block.descriptor],
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


@pytest.mark.parametrize("end", ["goes on", "is killed"])
def test_whoever_wants_it_waits_for_the_holder(block, holder, end):
    cells = Arena(block.memory, is_new=False).take(c_int64 * 2)
    got = threading.Event()

    def want() -> None:
        with ProcessMutex(block):
            got.set()

    thread = threading.Thread(target=want)
    thread.start()
    assert not got.wait(0.05)
    if end == "is killed":
        holder.kill()
    else:
        holder.stdin.write("\n")
        holder.stdin.flush()
    assert got.wait(20)
    thread.join(20)
    assert list(cells) == [1, end == "goes on"]


def test_threads_exclude_one_another_too(block):
    mutex, inside, most = ProcessMutex(block), 0, 0

    def work() -> None:
        nonlocal inside, most
        for _ in range(200):
            with mutex:
                inside += 1
                os.sched_yield()
                most = max(most, inside)
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert (inside, most) == (0, 1)


def test_an_arena_gives_everyone_the_same_places(block):
    kinds = [c_int64 * 3, c_int64 * 9, c_int64 * 1]
    ours, theirs = Arena(block.memory), Arena(block.memory, is_new=False)
    for number, kind in enumerate(kinds, start=1):
        mine, yours = ours.take(kind), theirs.take(kind)
        assert not any(yours)
        mine[:] = [number] * len(mine)
        assert list(yours) == list(mine)
    assert ours.used == theirs.used == 64 + 128 + 64
