"""What one hand-off between peers costs: PeerRing against pyzmq and queue.SimpleQueue.

Records of about 100 bytes, as one token's hand-off is. Latency is half a round trip of a
ping-pong between two peers that both block while they wait; rates are one producer's, from its
start to the last record read, sent one by one and in batches. Each transport is used as well as
can be: ZeroMQ with PUSH/PULL, large high-water marks, copying sends (the quick way for small
messages) and a batch joined to one message of equal records (multipart is slower); SimpleQueue
with one list, which isn't even copied, for a batch.

Run ``python -m benchmarks.handoff`` (about a minute) or with ``--smoke`` (seconds). Prints a table
and ends with one JSON object. A number is the median of the repeats, which take turns.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnContext
from queue import SimpleQueue

import zmq

import trcore
from benchmarks.parts.server_handoff import counted_latencies_us, handoff_latencies_us
from trcore import PeerRing

SPAWN: SpawnContext = get_context("spawn")
HWM = 1_000_000
RING_BYTES = 1 << 20


@dataclass(frozen=True)
class Sizes:
    """How much is measured; counts, but for ``record_bytes``."""

    repeats: int
    rounds: int
    messages: int
    batch: int = 64
    record_bytes: int = 100

    @property
    def warm_up(self) -> int:
        """Rounds before the clock counts."""
        return max(200, self.rounds // 10)


FULL = Sizes(repeats=5, rounds=10_000, messages=200_000)
SMOKE = Sizes(repeats=1, rounds=1_000, messages=20_000)

Send = Callable[[bytes], object]
SendBatch = Callable[[list[bytes]], object]
Receive = Callable[[], int]  # blocks; returns how many records came
Go = Callable[[], object]
Rates = tuple[float, float]

# ---------------------------------------------------------------- what is measured, any transport


def ping(send: Send, receive: Receive, sizes: Sizes) -> list[float]:
    """One-way latencies in µs."""
    record = os.urandom(sizes.record_bytes)
    clock = time.perf_counter_ns
    trips: list[float] = []
    for _ in range(sizes.warm_up + sizes.rounds):
        start = clock()
        send(record)
        receive()
        trips.append((clock() - start) / 2000)
    return trips[sizes.warm_up :]


def pong(send: Send, receive: Receive, sizes: Sizes) -> None:
    """Answer every record of ``ping``."""
    record = os.urandom(sizes.record_bytes)
    for _ in range(sizes.warm_up + sizes.rounds):
        receive()
        send(record)


def produce(send: Send, send_batch: SendBatch, sizes: Sizes, wait_for_go: Go) -> None:
    """Send ``messages`` records one by one, then in batches."""
    record = os.urandom(sizes.record_bytes)
    wait_for_go()
    for _ in range(sizes.messages):
        send(record)
    batch = [record] * sizes.batch
    wait_for_go()
    for _ in range(sizes.messages // sizes.batch):
        send_batch(batch)


def consume(receive: Receive, receive_batch: Receive, sizes: Sizes, go: Go) -> Rates:
    """Records a second, one by one and in batches, from the start of sending to the last read."""
    rates = []
    in_batches = sizes.messages // sizes.batch * sizes.batch
    for take, count in ((receive, sizes.messages), (receive_batch, in_batches)):
        start = time.perf_counter()
        go()
        got = 0
        while got < count:
            got += take()
        rates.append(count / (time.perf_counter() - start))
    return rates[0], rates[1]


def named(name: str, trips: list[float], rates: Rates) -> dict[str, float]:
    """The figures of one measurement under their names in the result."""
    cuts = statistics.quantiles(trips, n=100)
    return {
        f"{name}_p50_us": cuts[49],
        f"{name}_p99_us": cuts[98],
        f"{name}_per_s": rates[0],
        f"{name}_batch_per_s": rates[1],
    }


@contextmanager
def peer_thread(target: Callable[[], object]) -> Iterator[None]:
    """The other side in a thread, joined at the end."""
    thread = threading.Thread(target=target)
    thread.start()
    yield
    thread.join()


# ---------------------------------------------------------------- PeerRing


def ring_calls(inbox: PeerRing, outbox: PeerRing) -> tuple[Send, SendBatch, Receive]:
    """Send, send a batch, receive."""

    def send(record: bytes) -> None:
        if not outbox.push(record):
            outbox.push_many([record], timeout=60.0)

    def send_batch(records: list[bytes]) -> None:
        if outbox.push_many(records, timeout=60.0) != len(records):
            raise TimeoutError("the ring stayed full for a minute")

    def receive() -> int:
        inbox.wait(None)
        return len(inbox.drain())

    return send, send_batch, receive


def ring_thread(sizes: Sizes) -> dict[str, float]:
    """PeerRing on the heap, between threads."""
    with PeerRing.heap(RING_BYTES) as here, PeerRing.heap(RING_BYTES) as there:
        send, _, receive = ring_calls(here, there)
        peer_send, peer_send_batch, peer_receive = ring_calls(there, here)
        with peer_thread(lambda: pong(peer_send, peer_receive, sizes)):
            trips = ping(send, receive, sizes)
        gate = threading.Semaphore(0)
        with peer_thread(lambda: produce(peer_send, peer_send_batch, sizes, gate.acquire)):
            rates = consume(receive, receive, sizes, gate.release)
    return named("ring_thread", trips, rates)


def ring_peer(pipe: Connection, name: str, sizes: Sizes) -> None:
    """The other process of ``ring_process``."""
    with PeerRing.create("bench-peer", RING_BYTES) as inbox, PeerRing.attach(name) as outbox:
        pipe.send(inbox.name)
        send, send_batch, receive = ring_calls(inbox, outbox)
        pong(send, receive, sizes)
        produce(send, send_batch, sizes, pipe.recv)
        pipe.recv()  # stay until all is read


def ring_process(sizes: Sizes) -> dict[str, float]:
    """PeerRing in shared memory, between processes."""
    ours, theirs = SPAWN.Pipe()
    with PeerRing.create("bench", RING_BYTES) as inbox:
        peer = SPAWN.Process(target=ring_peer, args=(theirs, inbox.name, sizes))
        peer.start()
        with PeerRing.attach(ours.recv()) as outbox:
            send, _, receive = ring_calls(inbox, outbox)
            trips = ping(send, receive, sizes)
            rates = consume(receive, receive, sizes, lambda: ours.send(None))
        ours.send(None)
        peer.join()
    return named("ring_process", trips, rates)


# ---------------------------------------------------------------- ZeroMQ


def zmq_socket(context: zmq.Context[zmq.Socket[bytes]], kind: int) -> zmq.Socket[bytes]:
    """A PUSH or PULL socket that never drops and needn't be waited for."""
    socket = context.socket(kind)
    socket.set(zmq.SNDHWM, HWM)
    socket.set(zmq.RCVHWM, HWM)
    socket.set(zmq.LINGER, 0)
    return socket


@contextmanager
def zmq_calls(
    context: zmq.Context[zmq.Socket[bytes]], inbox: str, outbox: str, batch: int
) -> Iterator[tuple[Send, SendBatch, Receive, Receive]]:
    """Send, send a batch, receive, receive a batch."""
    with zmq_socket(context, zmq.PULL) as pull, zmq_socket(context, zmq.PUSH) as push:
        pull.bind(inbox)
        push.connect(outbox)

        def receive_batch() -> int:
            joined = pull.recv()
            size = len(joined) // batch
            return len([joined[start : start + size] for start in range(0, len(joined), size)])

        yield (
            push.send,
            lambda records: push.send(b"".join(records)),
            lambda: 1 if pull.recv() else 0,
            receive_batch,
        )


def zmq_inproc(sizes: Sizes) -> dict[str, float]:
    """PUSH/PULL over inproc, between threads."""
    with zmq.Context(io_threads=1) as context:
        ready, gate, done = threading.Event(), threading.Semaphore(0), threading.Event()

        def peer() -> None:
            with zmq_calls(context, "inproc://there", "inproc://here", sizes.batch) as calls:
                ready.set()
                send, send_batch, receive, _ = calls
                pong(send, receive, sizes)
                produce(send, send_batch, sizes, gate.acquire)
                done.wait()  # LINGER is 0: stay until all is read

        with (
            peer_thread(peer),
            zmq_calls(context, "inproc://here", "inproc://there", sizes.batch) as calls,
        ):
            ready.wait()
            send, _, receive, receive_batch = calls
            trips = ping(send, receive, sizes)
            rates = consume(receive, receive_batch, sizes, gate.release)
            done.set()
    return named("zmq_inproc", trips, rates)


def zmq_peer(pipe: Connection, inbox: str, outbox: str, sizes: Sizes) -> None:
    """The other process of ``zmq_ipc``."""
    with (
        zmq.Context(io_threads=1) as context,
        zmq_calls(context, inbox, outbox, sizes.batch) as calls,
    ):
        send, send_batch, receive, _ = calls
        pipe.send(None)
        pong(send, receive, sizes)
        produce(send, send_batch, sizes, pipe.recv)
        pipe.recv()  # LINGER is 0: stay until all is read


def zmq_ipc(sizes: Sizes) -> dict[str, float]:
    """PUSH/PULL over ipc, between processes."""
    ours, theirs = SPAWN.Pipe()
    with tempfile.TemporaryDirectory() as folder, zmq.Context(io_threads=1) as context:
        here, there = f"ipc://{folder}/here", f"ipc://{folder}/there"
        peer = SPAWN.Process(target=zmq_peer, args=(theirs, there, here, sizes))
        with zmq_calls(context, here, there, sizes.batch) as calls:
            peer.start()
            ours.recv()
            send, _, receive, receive_batch = calls
            trips = ping(send, receive, sizes)
            rates = consume(receive, receive_batch, sizes, lambda: ours.send(None))
            ours.send(None)
            peer.join()
    return named("zmq_ipc", trips, rates)


# ---------------------------------------------------------------- queue.SimpleQueue


def simple_queue(sizes: Sizes) -> dict[str, float]:
    """The standard library's queue, between threads."""
    here: SimpleQueue[bytes | list[bytes]] = SimpleQueue()
    there: SimpleQueue[bytes | list[bytes]] = SimpleQueue()
    with peer_thread(lambda: pong(here.put, lambda: len(there.get()), sizes)):
        trips = ping(there.put, lambda: len(here.get()), sizes)
    gate = threading.Semaphore(0)
    with peer_thread(lambda: produce(here.put, here.put, sizes, gate.acquire)):
        rates = consume(
            lambda: 1 if here.get() else 0, lambda: len(here.get()), sizes, gate.release
        )
    return named("simple_queue", trips, rates)


# ---------------------------------------------------------------- the whole server


def server_handoff(sizes: Sizes) -> dict[str, float]:
    """Route decision to the start of the idle peer's next batch, inside a running group."""
    cuts = statistics.quantiles(handoff_latencies_us(sizes.rounds // 5), n=100)
    return {"server_handoff_p50_us": cuts[49], "server_handoff_p99_us": cuts[98]}


def server_threads(sizes: Sizes) -> dict[str, float]:
    """The same for single hand-offs, as the server itself counts it."""
    return counted("server_threads", sizes, processes=False)


def server_processes(sizes: Sizes) -> dict[str, float]:
    """The same with every model in a process of its own."""
    return counted("server_processes", sizes, processes=True)


def counted(name: str, sizes: Sizes, *, processes: bool) -> dict[str, float]:
    """The figures of one kind of group under their names in the result."""
    cuts = statistics.quantiles(counted_latencies_us(sizes.rounds // 5, processes=processes), n=100)
    return {f"{name}_p50_us": cuts[49], f"{name}_p99_us": cuts[98]}


# ---------------------------------------------------------------- the list, and its report

MEASUREMENTS: tuple[Callable[[Sizes], dict[str, float]], ...] = (
    ring_process,
    zmq_ipc,
    ring_thread,
    zmq_inproc,
    simple_queue,
    server_handoff,
    server_threads,
    server_processes,
)


def print_table(result: dict[str, float]) -> None:
    """One line a measurement, found by the names in the result."""
    columns = {
        "p50_us": "p50 µs",
        "p99_us": "p99 µs",
        "per_s": "1 by 1 /s",
        "batch_per_s": "batches /s",
    }
    print(f"{'':16}" + "".join(f"{title:>13}" for title in columns.values()))
    for measurement in MEASUREMENTS:
        name = measurement.__name__
        row = [result.get(f"{name}_{key}") for key in columns]
        cells = ["" if v is None else f"{v:,.2f}" if v < 1000 else f"{v:,.0f}" for v in row]
        print(f"{name:16}" + "".join(f"{cell:>13}" for cell in cells))


def main(arguments: list[str] | None = None) -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--smoke", action="store_true", help="small sizes, done in seconds")
    sizes = SMOKE if parser.parse_args(arguments).smoke else FULL
    machine = {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "trcore": trcore.__version__,
        "pyzmq": zmq.pyzmq_version(),
        "zmq": zmq.zmq_version(),
    }
    print("  ".join(f"{key} {value}" for key, value in {**machine, **asdict(sizes)}.items()))
    runs: list[dict[str, float]] = []
    for repeat in range(sizes.repeats):
        runs.append({})
        for measurement in MEASUREMENTS:
            print(f"repeat {repeat + 1}: {measurement.__name__}", file=sys.stderr)
            runs[-1] |= measurement(sizes)
    result = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
    print_table(result)
    print(
        f"across processes: ring {result['zmq_ipc_p50_us'] / result['ring_process_p50_us']:.1f}×"
        " quicker than ZeroMQ at p50"
    )
    ratio = result["server_processes_p50_us"] / result["server_threads_p50_us"]
    print(f"inside the server: {ratio:.2f}× the p50 of threads between processes")
    rounded = {key: float(f"{value:.4g}") for key, value in result.items()}
    print(json.dumps({"benchmark": "handoff", **machine, **asdict(sizes), **rounded}))


if __name__ == "__main__":
    main()
