"""Between the loops and a router, which is third-party code: it may raise, or return anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

from trrouters import BaseRouter, LogitsOutput, PeerReq, RouteResult, RouterOutputError
from trrouters.route_result import Tensor
from trsched.errors import RouterFailedError
from trsched.loops.local_request import LocalRequest
from trsched.loops.request_table import RequestTable
from trsched.shared.counters import SubserverStats
from trsched.wire.codec import CodecError
from trsched.wire.messages import Degraded, RequestFailed, RouterFailed
from trsched.wire.peers import Peers

_LONGEST_ERROR = 300
_MOST_ERRORS_REPORTED = 16


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A hand-off that may be sent.

    loc: tokens that the request has at the peer then.
    """

    record: bytes
    loc: int


class RouterGuard:
    """Calls the router of one subserver and checks what it returns.

    Only RouterFailedError leaves these calls (also where the router calls `sys.exit`, which would
    else end the thread without a word), and no state of a request has changed then: the caller asks
    `forgive` what becomes of the request.

    forgiving: it goes on, degraded.
    """

    def __init__(
        self,
        index: int,
        router: BaseRouter,
        table: RequestTable,
        peers: Peers,
        stats: SubserverStats,
        *,
        forgiving: bool,
    ) -> None:
        self._index = index
        self._router = router
        self._table = table
        self._peers = peers
        self._stats = stats
        self._forgiving = forgiving
        self._reported: set[str] = set()

    def route(self, result: RouteResult) -> Sequence[int | RouterFailedError]:
        """For each request its destination, or how routing it failed.

        A batch that fails is routed again, each row alone: one request may not fail the others.
        """
        try:
            return self._destinations(result)
        except RouterFailedError as error:
            if len(result.requests) == 1:
                return [error]
        rows = range(len(result.requests))
        return [destination for row in rows for destination in self.route(_alone(result, row))]

    def send(self, req: LocalRequest, peer: int, decided_ns: int) -> Outgoing:
        """The router's message for `peer`, which the peer can take. Raises RouterFailedError."""
        req.peer = peer
        try:
            message = self._router.send(req)
            _check_message(req, peer, message)
            record = self._peers.record(peer, message, decided_ns)
            return Outgoing(record, int(message.loc))
        except BaseException as error:  # noqa: BLE001 - third-party code
            raise self._failure(error) from None
        finally:
            req.peer = 0

    def receive(self, peer_req: PeerReq) -> None:
        """Show the router what has come. Raises RouterFailedError if it takes anything else.

        The sender has committed these tokens and the client may have them: there is no choice.
        """
        tokens = list(peer_req.token_ids)
        try:
            if list(self._router.receive(replace(peer_req, token_ids=tokens.copy()))) != tokens:
                raise RouterOutputError("receive took other tokens than the peer has committed")
        except BaseException as error:  # noqa: BLE001 - third-party code
            raise self._failure(error) from None

    def forgive(self, req: LocalRequest, error: RouterFailedError) -> bool:
        """Let the request go on without the router, marked degraded, or end it: which of them."""
        if not self._forgiving:
            self._table.end(req.rid)
            self._peers.report(RequestFailed(req.rid, f"router failed: {error}"))
            return False
        # At once and not with the step's rows: a peer's report of the end may overtake those.
        if not req.degraded:
            req.degraded = True
            self._peers.report(Degraded(req.rid))
        return True

    def _destinations(self, result: RouteResult) -> list[int]:
        count, peers = len(result.requests), self._router.n_models
        try:
            given = self._router.route(result)
            if hasattr(given, "cpu"):  # a tensor, where the engine's outputs are
                given = given.cpu()
            given = np.asarray(given)
            if given.shape != (count,) or given.dtype.kind not in "iu":
                raise RouterOutputError(
                    f"route returned {given.dtype}{list(given.shape)}, expected integers [{count}]"
                )
            if given.min() < 0 or given.max() >= peers:
                raise RouterOutputError(f"route named a peer outside 0 … {peers - 1}")
            destinations: list[int] = given.tolist()
            return destinations
        except BaseException as error:  # noqa: BLE001 - third-party code
            raise self._failure(error) from None

    def _failure(self, error: BaseException) -> RouterFailedError:
        """Count a failed call; the group hears of each text once, of the first few of them."""
        self._stats.router_errors += 1
        text = describe(error)
        if text not in self._reported and len(self._reported) < _MOST_ERRORS_REPORTED:
            self._reported.add(text)
            self._peers.report(RouterFailed(self._index, text))
        return RouterFailedError(text)


def describe(error: BaseException) -> str:
    """What a router's failure says, as one line of text whatever the exception is like."""
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - third-party code
        said = "(no text)"
    if not isinstance(error, RouterOutputError | CodecError):
        said = f"{type(error).__name__}: {said}"
    said = said[:_LONGEST_ERROR].encode(errors="replace").decode()
    return "".join(letter if letter.isprintable() else " " for letter in said).rstrip()


def _alone(result: RouteResult, row: int) -> RouteResult:
    """One row of a step."""
    rows = slice(row, row + 1)
    output = result.logits_output
    return RouteResult(
        result.requests[rows],
        result.next_token_ids[rows],
        LogitsOutput(
            _rows(output.next_token_logits, rows),
            _rows(output.hidden_states, rows),
            _rows(output.token_embeddings, rows),
            _rows(output.extra_logits, rows),
        ),
    )


def _rows(tensor: Tensor | None, rows: slice) -> Tensor | None:
    return None if tensor is None else tensor[rows]


def _check_message(req: LocalRequest, peer: int, message: object) -> None:
    """Refuse a message that isn't the request as it is here, or lacks what the peer lacks."""
    if not isinstance(message, PeerReq) or message.rid != req.rid:
        raise RouterOutputError("send returned no message of its request")
    if not req.loc - 1 <= message.loc <= req.loc:
        raise RouterOutputError(f"send named loc {message.loc} of a request with {req.loc} tokens")
    count = len(message.token_ids)
    start = message.loc - count
    if not 0 <= start <= req.peer_locs[peer]:
        raise RouterOutputError(
            f"send named tokens {start} to {message.loc}, the peer has {req.peer_locs[peer]}"
        )
    if list(message.token_ids) != req.tokens_from(start)[:count]:
        raise RouterOutputError("send named other tokens than the request has")
    if message.finished and not (message.loc == req.loc and req.finished()):
        raise RouterOutputError("send finished a request that goes on")
