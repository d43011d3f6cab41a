"""Whether a call lets other threads run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


def ticks_during(call: Callable[[], None]) -> int:
    """How often this thread wakes from a sleep of 1 ms while another one is in `call`."""
    begun, done = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        call()
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    ticks = 0
    while not done.is_set():
        time.sleep(0.001)
        ticks += 1
    thread.join()
    return ticks
