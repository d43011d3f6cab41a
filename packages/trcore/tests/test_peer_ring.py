import array
import gc
import os
import subprocess
import sys
import threading
import warnings
from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trcore
from trcore import PeerRing


def cells(record: bytes) -> int:
    return (len(record) + 4 + 63) // 64


RECORDS = st.binary(max_size=300) | st.integers(0, 1020).map(bytes)
OPERATIONS = st.lists(
    st.tuples(st.just("push"), RECORDS)
    | st.tuples(st.just("push_many"), st.lists(RECORDS, max_size=8))
    | st.tuples(st.just("drain"), st.integers(0, 5))
)


@settings(max_examples=300)
@given(OPERATIONS)
def test_ring_is_a_bounded_deque(operations: list[tuple[str, object]]) -> None:
    with PeerRing.heap(1024) as ring:
        model: deque[bytes] = deque()

        def push(record: bytes) -> bool:
            fits = sum(map(cells, model)) + cells(record) <= 16
            if fits:
                model.append(record)
            return fits

        for name, argument in operations:
            if name == "push":
                assert isinstance(argument, bytes)
                assert ring.push(argument) == push(argument)
            elif name == "push_many":
                assert isinstance(argument, list)
                accepted = ring.push_many(argument)
                fits = [push(record) for record in argument[:accepted]]
                assert all(fits)
                assert accepted == len(argument) or not push(argument[accepted])
            else:
                assert isinstance(argument, int)
                count = min(argument or len(model), len(model))
                assert ring.drain(argument) == [model.popleft() for _ in range(count)]
            assert ring.wait(0) == bool(model)
        assert ring.drain() == list(model)


def test_sizes_are_those_promised() -> None:
    ring = PeerRing.heap(3000)
    assert (ring.capacity_bytes, ring.max_record_bytes) == (4096, 4092)
    assert ring.name == ""
    assert ring.abandoned == 0
    assert ring.push(bytes(4092))
    assert ring.drain() == [bytes(4092)]


def test_push_takes_any_contiguous_buffer() -> None:
    ring = PeerRing.heap(1024)
    assert ring.push(bytearray(b"a"))
    assert ring.push(memoryview(b"xbx")[1:2])
    assert ring.push(array.array("i", [1]))
    assert ring.drain() == [b"a", b"b", array.array("i", [1]).tobytes()]
    with pytest.raises(TypeError):
        ring.push("text")  # type: ignore[arg-type]
    with pytest.raises(BufferError):
        ring.push(memoryview(b"abcd")[::2])


def test_errors_name_the_argument() -> None:
    ring = PeerRing.heap(1024)
    with pytest.raises(ValueError, match="record"):
        ring.push(bytes(1021))
    with pytest.raises(ValueError, match="record"):
        ring.push_many([b"fits", bytes(1021)])
    assert ring.drain() == [b"fits"]
    with pytest.raises(ValueError, match="timeout"):
        ring.wait(-1)
    with pytest.raises(ValueError, match="timeout"):
        ring.push_many([], timeout=float("nan"))
    for capacity in (0, 2**30):
        with pytest.raises(ValueError, match="capacity_bytes"):
            PeerRing.heap(capacity)


def test_push_many_waits_for_room_and_keeps_order() -> None:
    ring = PeerRing.heap(1024)
    records = [b"%03d" % i for i in range(200)]
    accepted: list[int] = []
    producer = threading.Thread(target=lambda: accepted.append(ring.push_many(records, timeout=60)))
    producer.start()
    got: list[bytes] = []
    while len(got) < len(records):
        assert ring.wait(60)
        got += ring.drain(3)
    producer.join()
    assert got == records
    assert accepted == [200]
    assert ring.push_many(records, timeout=0.01) == 16


def test_wake_ends_one_wait() -> None:
    ring = PeerRing.heap(1024)
    assert not ring.wait(0.001)
    ring.wake()
    assert ring.wait(None)
    assert not ring.wait(0)
    results: list[bool] = []
    waiter = threading.Thread(target=lambda: results.append(ring.wait(60)))
    waiter.start()
    ring.wake()
    waiter.join()
    assert results == [True]


def test_close_ends_waits_and_everything_else() -> None:
    ring = PeerRing.heap(1024)
    failures: list[Exception] = []
    entered = threading.Event()

    def wait() -> None:
        entered.set()
        try:
            ring.wait(None)
        except ValueError as error:
            failures.append(error)

    waiter = threading.Thread(target=wait)
    waiter.start()
    entered.wait()
    ring.close()
    ring.close()
    waiter.join()
    assert "closed" in str(failures[0])
    for call in (lambda: ring.push(b""), ring.drain, ring.wake, lambda: ring.capacity_bytes):
        with pytest.raises(ValueError, match="closed"):
            call()
    assert "closed" in repr(ring)


def test_threads_push_while_one_drains() -> None:
    ring = PeerRing.heap(1 << 12)
    count = 3000

    def produce(producer: int) -> None:
        done = 0
        while done < count:
            done += ring.push_many([b"%d %d" % (producer, i) for i in range(done, done + 5)], 60)

    threads = [threading.Thread(target=produce, args=(p,)) for p in range(4)]
    for thread in threads:
        thread.start()
    following = dict.fromkeys(range(4), 0)
    while sum(following.values()) < 4 * count:
        assert ring.wait(60)
        for record in ring.drain():
            producer, number = map(int, record.split())
            assert number == following[producer]
            following[producer] += 1
    for thread in threads:
        thread.join()


def test_ctrl_c_interrupts_a_wait() -> None:
    code = (
        "import os, signal, threading, trcore\n"
        # a background job's shell may have left the signal ignored
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "ring = trcore.PeerRing.heap(1024)\n"
        "threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "try:\n    ring.wait(None)\nexcept KeyboardInterrupt:\n    print('interrupted')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "interrupted\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_must_attach_anew() -> None:
    ring = PeerRing.create("forked", 1024)
    ring.push(b"parent")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # fork with threads, Python 3.12
        child = os.fork()
    if child == 0:
        status = 1
        try:
            ring.push(b"child")
        except RuntimeError:
            with PeerRing.attach(ring.name) as own:
                own.push(b"child")
            ring.close()
            del ring
            gc.collect()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert ring.drain() == [b"parent", b"child"]
    assert ring.push(b"still the parent's slot")
    ring.close()


def test_public_names() -> None:
    assert sorted(trcore.__all__) == trcore.__all__
    public = {name for name in vars(trcore) if not name.startswith("_")} - {"Path", "version"}
    assert public == set(trcore.__all__)
    assert trcore.__version__
