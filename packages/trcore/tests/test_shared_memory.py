import importlib.util
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import trcore
from trcore import PeerRing

PRODUCER = Path(__file__).with_name("producer.py")
SHM = Path("/dev/shm")

pytestmark = pytest.mark.skipif(not SHM.is_dir(), reason="segments can't be seen here")


def file_of(name: str) -> Path:
    return SHM / name.removeprefix("/")


def test_segment_is_private_and_goes_with_its_owner() -> None:
    ring = PeerRing.create("mode", 1024)
    name = ring.name
    assert stat.S_IMODE(file_of(name).stat().st_mode) == 0o600
    with pytest.raises(FileExistsError, match="name"):
        PeerRing.create("mode", 1024)
    with PeerRing.attach(name) as producer:
        assert producer.push(b"a")
    assert file_of(name).exists()
    ring.close()
    assert not file_of(name).exists()
    with pytest.raises(FileNotFoundError, match="name"):
        PeerRing.attach(name)


def test_an_attached_ring_only_pushes_and_learns_of_the_end() -> None:
    ring = PeerRing.create("roles", 1024)
    producer = PeerRing.attach(ring.name)
    with pytest.raises(RuntimeError, match="producer"):
        producer.drain()
    with pytest.raises(RuntimeError, match="producer"):
        producer.wait(0)
    producer.wake()
    assert ring.wait(0)
    ring.close()
    with pytest.raises(BrokenPipeError, match="closed"):
        producer.push(b"a")
    with pytest.raises(BrokenPipeError, match="closed"):
        producer.push_many([b"a"], timeout=1)


@pytest.mark.parametrize("name", ["", "x" * 65, "a/b", "é"])
def test_bad_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        PeerRing.create(name, 1024)


def test_attach_refuses_what_is_no_ring() -> None:
    for name in ("", "/", "nothing", "/psm_1234", "/trcore-1-2-3"):
        with pytest.raises(ValueError, match="name"):
            PeerRing.attach(name)
    ring = PeerRing.create("genuine", 1024)
    contents = bytearray(file_of(ring.name).read_bytes())
    forged = ring.name.replace("genuine", "forged")
    try:
        for start, new, message in (
            (0, b"junk", "wasn't made by trcore"),
            (8, b"\xff", "layout version 255"),
            (16, b"\x01", "bytes and has"),
            (64, b"\x05", "holds no ring"),
        ):
            broken = contents.copy()
            broken[start : start + len(new)] = new
            file_of(forged).write_bytes(broken)
            with pytest.raises(ValueError, match=message):
                PeerRing.attach(forged)
        file_of(forged).write_bytes(b"short")
        with pytest.raises(ValueError, match="too short"):
            PeerRing.attach(forged)
    finally:
        file_of(forged).unlink()
        ring.close()


def run_owner(ending: str) -> tuple[str, int]:
    """Name of a ring made by another process, and how that one ended."""
    code = (
        "import os, signal, sys, trcore\n"
        "ring = trcore.PeerRing.create('owner', 1024)\n"
        f"print(ring.name, flush=True)\n{ending}\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.strip(), done.returncode


@pytest.mark.parametrize("ending", ["", "sys.exit(3)", "raise SystemError", "sys.ring = ring"])
def test_exit_unlinks(ending: str) -> None:
    name, _ = run_owner(ending)
    assert name
    assert not file_of(name).exists()


def test_leftovers_of_a_killed_owner_are_removed_at_the_next_start() -> None:
    kill = "os.kill(os.getpid(), signal.SIGKILL)"
    name, status = run_owner(kill)
    assert status == -signal.SIGKILL
    assert file_of(name).exists()
    with pytest.raises(ConnectionRefusedError, match="dead"):
        PeerRing.attach(name)
    mine = PeerRing.create("mine", 1024)
    assert not file_of(name).exists()
    assert file_of(mine.name).exists()

    name, _ = run_owner(kill)
    assert trcore.remove_stale_segments() == [name]
    assert trcore.remove_stale_segments() == []
    mine.close()


@pytest.mark.parametrize("point", ["after_reserve", "before_publish"])
def test_a_producer_killed_in_its_push_blocks_nobody(ring_crasher: Path, point: str) -> None:
    with PeerRing.create("gap", 4096) as ring:
        done = subprocess.run([str(ring_crasher), ring.name, point], timeout=60, check=False)
        assert done.returncode == -signal.SIGKILL
        assert ring.push(b"later")
        got: list[bytes] = []
        while len(got) < 2:
            assert ring.wait(30)
            got += ring.drain()
        assert got == [b"before", b"later"]
        assert ring.abandoned == 1


def test_push_many_gives_up_when_the_consumer_is_dead() -> None:
    code = (
        "import sys, trcore\n"
        "ring = trcore.PeerRing.create('dying', 1024)\n"
        "print(ring.name, flush=True)\nsys.stdin.read()\n"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with owner:
        assert owner.stdout is not None
        producer = PeerRing.attach(owner.stdout.readline().strip())
        assert producer.push_many([b""] * 20) == 16
        owner.kill()
        owner.wait()
        assert producer.push_many([b""], timeout=3600) == 0
    producer.close()
    trcore.remove_stale_segments()


def test_processes_push_while_one_drains() -> None:
    spec = importlib.util.spec_from_file_location("producer", PRODUCER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    producers, count = 3, 4000
    with PeerRing.create("stress", 1 << 13) as ring:
        command = [sys.executable, str(PRODUCER), ring.name]
        children = [
            subprocess.Popen([*command, str(p), str(count)], env=dict(os.environ))
            for p in range(producers)
        ]
        following = [0] * producers
        while sum(following) < producers * count:
            assert ring.wait(60), following
            for record in ring.drain():
                producer = int(record[:4])
                assert record == module.record(producer, following[producer])
                following[producer] += 1
        assert [child.wait(60) for child in children] == [0] * producers
        assert ring.drain() == []
        assert ring.abandoned == 0
