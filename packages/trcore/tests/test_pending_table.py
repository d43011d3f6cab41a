import threading
from math import inf

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from trcore import PendingTable, State

SLOTS, PEERS = 3, 2
LIVE = st.sampled_from([State.RUNNING, State.PENDING])
LEGAL = [
    (State.RUNNING, State.PENDING),
    (State.PENDING, State.RUNNING),
    (State.RUNNING, State.FINISHED),
    (State.PENDING, State.FINISHED),
]


class TableAgainstDict(RuleBasedStateMachine):
    """Every handle ever seen is tried again and again, so most calls are with stale ones."""

    def __init__(self) -> None:
        super().__init__()
        self.table = PendingTable(SLOTS, PEERS)
        self.group = PendingTable(SLOTS, PEERS)
        self.live: dict[int, tuple[State, float]] = {}
        self.anchors: dict[tuple[int, int], int] = {}
        self.next_generation = [0] * SLOTS
        self.known: list[int] = [-1, 2**62 + SLOTS, SLOTS]

    def pick(self, data: st.DataObject) -> int:
        return data.draw(st.sampled_from(self.known))

    def begin(self, handle: int, state: State, deadline: float) -> None:
        self.live[handle] = (state, deadline)
        self.known.append(handle)

    @rule(state=LIVE, deadline=st.sampled_from([1.0, 2.0, inf]))
    def allocate(self, state: State, deadline: float) -> None:
        handle = self.table.allocate(state, deadline)
        if len(self.live) == SLOTS:
            assert handle == -1
            return
        assert handle >= 0
        assert handle not in self.live
        slot = PendingTable.slot(handle)
        assert slot not in {PendingTable.slot(other) for other in self.live}
        assert handle >> 32 == self.next_generation[slot]
        self.begin(handle, state, deadline)

    @rule(state=LIVE)
    def adopt_from_group(self, state: State) -> None:
        handle = self.group.allocate()
        if handle < 0:
            for slot in range(SLOTS):  # the group moves on without telling us
                for generation in range(64):
                    old = generation << 32 | slot
                    if self.group.transition(old, State.RUNNING, State.FINISHED):
                        self.group.release(old)
            return
        self.adopt(handle, state)

    @rule(data=st.data(), state=LIVE)
    def adopt_again(self, data: st.DataObject, state: State) -> None:
        self.adopt(self.pick(data), state)

    def adopt(self, handle: int, state: State) -> None:
        slot = PendingTable.slot(handle)
        free = slot not in {PendingTable.slot(other) for other in self.live}
        may = 0 <= slot < SLOTS and free and handle >> 32 >= self.next_generation[slot]
        assert self.table.adopt(handle, state) == may
        if may:
            self.next_generation[slot] = handle >> 32
            self.begin(handle, state, inf)

    @rule(data=st.data(), change=st.sampled_from(LEGAL))
    def transition(self, data: st.DataObject, change: tuple[State, State]) -> None:
        handle = self.pick(data)
        may = handle in self.live and self.live[handle][0] == change[0]
        assert self.table.transition(handle, *change) == may
        if may:
            self.live[handle] = (change[1], self.live[handle][1])

    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        handle = self.pick(data)
        may = handle in self.live and self.live[handle][0] == State.FINISHED
        assert self.table.release(handle) == may
        if may:
            del self.live[handle]
            self.next_generation[PendingTable.slot(handle)] = (handle >> 32) + 1

    @rule(data=st.data(), peer=st.integers(0, PEERS - 1), loc=st.integers(0, 2**32 - 1))
    def set_anchor(self, data: st.DataObject, peer: int, loc: int) -> None:
        handle = self.pick(data)
        assert self.table.set_anchor(handle, peer, loc) == (handle in self.live)
        if handle in self.live:
            self.anchors[handle, peer] = loc

    @rule(now=st.sampled_from([0.0, 1.0, 1.5, 2.0]), room=st.integers(0, SLOTS))
    def expire(self, now: float, room: int) -> None:
        out = np.full(room, -7, dtype=np.int64)
        count = self.table.expire(now, out)
        due = [h for h, (state, end) in self.live.items() if state != State.FINISHED and end <= now]
        due.sort(key=PendingTable.slot)
        assert out[:count].tolist() == due[:room]

    @invariant()
    def agrees(self) -> None:
        for handle in self.known:
            state = self.live[handle][0] if handle in self.live else State.STALE
            assert self.table.state(handle) is state
            for peer in range(PEERS):
                loc = self.anchors.get((handle, peer), 0) if handle in self.live else -1
                assert self.table.anchor(handle, peer) == loc
        states = [state for state, _ in self.live.values()]
        expected = (State.RUNNING, State.PENDING, State.FINISHED)
        assert self.table.counts() == (SLOTS - len(states), *map(states.count, expected))


TestTableAgainstDict = TableAgainstDict.TestCase
TestTableAgainstDict.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_errors_name_the_argument() -> None:
    table = PendingTable(2, 2)
    handle = table.allocate()
    for slots, peers, name in (
        (0, 1, "slots"),
        (-1, 1, "slots"),
        (1, 0, "peers"),
        (1, 2000, "peers"),
    ):
        with pytest.raises(ValueError, match=name):
            PendingTable(slots, peers)
    with pytest.raises(ValueError, match="state"):
        table.allocate(State.FINISHED)
    with pytest.raises(ValueError, match="new"):
        table.transition(handle, State.FINISHED, State.RUNNING)
    with pytest.raises(IndexError, match="peer"):
        table.set_anchor(handle, 2, 0)
    with pytest.raises(ValueError, match="loc"):
        table.set_anchor(handle, 0, -1)
    readonly = np.zeros(4, dtype=np.int64)
    readonly.flags.writeable = False
    for out in (
        np.zeros(4),
        np.zeros(8, dtype=np.int64)[::2],
        np.zeros((2, 2), np.int64),
        readonly,
    ):
        with pytest.raises(ValueError, match="out"):
            table.expire(1.0, out)  # type: ignore[arg-type]


def test_of_resume_and_abort_exactly_one_wins() -> None:
    table = PendingTable(1, 1)
    barrier = threading.Barrier(2)
    handles = [0]
    wins: list[State] = []

    def race(new: State) -> None:
        for _ in range(300):
            if barrier.wait() == 0:
                handles[0] = table.allocate(State.PENDING)
            barrier.wait()
            if table.transition(handles[0], State.PENDING, new):
                wins.append(new)
            if barrier.wait() == 0:
                table.transition(handles[0], State.RUNNING, State.FINISHED)
                assert table.release(handles[0])
            barrier.wait()

    threads = [threading.Thread(target=race, args=(s,)) for s in (State.RUNNING, State.FINISHED)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(wins) == 300
