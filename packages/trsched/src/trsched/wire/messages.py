"""What passes between the group's client loop and its subservers, besides `PeerReq`s."""

from __future__ import annotations

import msgspec

from trsched.request import FinishReason, SamplingParams, TokenLogprobs


class Admit(msgspec.Struct, frozen=True, array_like=True, tag="admit"):
    """A new request: it waits at its entry and is pending, the prompt known, everywhere else.

    threshold: its own value of the router's `threshold_setting`.
    stays: it never leaves its entry; nobody else is told of it.
    """

    handle: int
    entry: int
    prompt_ids: list[int]
    sampling: SamplingParams
    max_tokens: int
    stop_token_ids: list[int]
    threshold: float | None = None
    stays: bool = False


class Release(msgspec.Struct, frozen=True, array_like=True, tag="release"):
    """The request has ended, for whatever reason: forget it and free its KV."""

    handle: int


class PeerDown(msgspec.Struct, frozen=True, array_like=True, tag="peer_down"):
    """A subserver of the group has died."""

    index: int


class Stop(msgspec.Struct, frozen=True, array_like=True, tag="stop"):
    """The subserver's loops end."""


class StepEvents(msgspec.Struct, frozen=True, array_like=True, tag="step"):
    """One step's outcome, a row per request. All lists have the same length.

    positions: of the committed output token, -1 where none was committed (the hand-off dropped it).
    owners: the subserver that has the request now.
    finishes: index into FINISHES.
    degraded: rows that stayed because the peer they wanted is dead.
    logprobs: by row, where asked for.
    """

    model: int
    handles: list[int]
    positions: list[int]
    tokens: list[int]
    owners: list[int]
    finishes: list[int]
    degraded: list[int]
    logprobs: dict[int, TokenLogprobs]


FINISHES: tuple[FinishReason, ...] = ("stop", "stop", "length")
"""Reason by index; index 0 stands for a request that goes on."""


class RequestFailed(msgspec.Struct, frozen=True, array_like=True, tag="failed"):
    """A request cannot go on at this subserver."""

    handle: int
    error: str


class Degraded(msgspec.Struct, frozen=True, array_like=True, tag="degraded"):
    """A request goes on at this subserver although its router failed."""

    handle: int


class RouterFailed(msgspec.Struct, frozen=True, array_like=True, tag="router_failed"):
    """A subserver's router has failed in a way that it had not failed in before."""

    model: int
    error: str


class Died(msgspec.Struct, frozen=True, array_like=True, tag="died"):
    """A subserver's loops have ended on an error.

    abrupt: its process has ended without a word, perhaps between a hand-off and the report of it.
    """

    model: int
    error: str
    abrupt: bool = False


Command = Admit | Release | PeerDown | Stop
Report = StepEvents | RequestFailed | Degraded | RouterFailed | Died
