"""What a balancer knows of its instances."""

from typing import final

import numpy as np
from numpy.typing import NDArray

@final
class InstanceView:
    """The state of I instances, one numpy array for each column: views of C++ memory, no copies.

    A column is a writable array [I] that keeps the view alive; take it once and keep it. A new row
    is closed (``healthy`` False) and stays so until its columns have been filled.

    Threads. The GIL is the view's lock. `assign` copies the columns when it begins, scores without
    the GIL if that takes long, and adds what it assigned at the end, so that what others have
    written or added meanwhile is kept; it counts from the next batch on. Two threads may assign at
    once; they don't see each other's choices. In Python ``column[i] += x`` is a read and a write
    between which another thread may come: use `add`. And numpy gives up the GIL while it writes
    some hundred elements: such a write may be seen half done.

    An account (the four of `add`) below 0 or NaN, out of step for a moment, is scored as 0.
    """

    def __init__(self, instances: int) -> None:
        """``instances``: I, 1 to 2**16, else ValueError. Spare rows cost little: leave some."""
    def __len__(self) -> int:
        """I."""
    def add(
        self,
        instance: int,
        *,
        running: int = 0,
        waiting: int = 0,
        pending_decode: float = 0.0,
        pending_prefill: float = 0.0,
    ) -> None:
        """Add to the accounts of one instance; negative numbers take away.

        What is added in whole tokens (below 2**53) and taken away again leaves nothing behind.
        IndexError if there is no such instance.
        """
    @property
    def model(self) -> NDArray[np.int32]:
        """Which model it serves: the column of the predictions, 0 to M - 1."""
    @property
    def input_price(self) -> NDArray[np.float64]:
        """USD per 1M prompt tokens, 0 to 1e9."""
    @property
    def output_price(self) -> NDArray[np.float64]:
        """USD per 1M generated tokens, 0 to 1e9."""
    @property
    def tpot_s(self) -> NDArray[np.float64]:
        """Predicted seconds per output token; NaN or infinite: not known, as at first."""
    @property
    def prior_tpot_s(self) -> NDArray[np.float64]:
        """What its tier (model and GPU) takes when ``tpot_s`` isn't known; above 0 and finite."""
    @property
    def prefill_rate(self) -> NDArray[np.float64]:
        """Prompt tokens per second; 0: prefill takes no time, as in the paper."""
    @property
    def slots(self) -> NDArray[np.int32]:
        """How many requests run at once; 0: it never has a free slot."""
    @property
    def running(self) -> NDArray[np.int32]:
        """Requests that decode, b_i."""
    @property
    def waiting(self) -> NDArray[np.int32]:
        """Requests sent and not yet running."""
    @property
    def pending_decode(self) -> NDArray[np.float64]:
        """Tokens that its requests are still to generate, d_i."""
    @property
    def pending_prefill(self) -> NDArray[np.float64]:
        """Prompt tokens that it has still to read."""
    @property
    def last_assigned(self) -> NDArray[np.int64]:
        """Sequence number of the last request it was given; 0: none yet."""
    @property
    def healthy(self) -> NDArray[np.bool_]:
        """False: nothing is assigned to it."""
    @property
    def draining(self) -> NDArray[np.bool_]:
        """True: nothing is assigned to it; what it has goes on."""
    @property
    def context_window(self) -> NDArray[np.int32]:
        """Most tokens of prompt and answer together."""
    @property
    def capabilities(self) -> NDArray[np.uint32]:
        """A bit for each thing it can do; which bit means what is the caller's affair."""
