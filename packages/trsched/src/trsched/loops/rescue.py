"""What becomes of a request when a model is dead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from trsched.loops.active_request import ActiveRequest

Fate = Literal["goes on", "moves", "model died", "token lost"]
"""It goes on where it is, moves to a living model, or ends for one of two reasons."""


def fate(active: ActiveRequest, alive: Sequence[bool], *, degrade: bool) -> Fate:
    """Of a request, some model being dead; of a pair, that has reported all it ever will then.

    Killed after a hand-off and before its report, it leaves an owner that cannot be, beyond itself
    (its report would have moved it back), or a token that nobody knows, from which the other model
    wrote on.

    alive: by model.
    degrade: whether requests that are routed go on without a model that died.
    """
    owner = active.owner
    if degrade and active.end is not None and alive[active.ended_by]:
        return "token lost"
    lost = degrade and (owner > 1 if alive[0] else owner < 0)
    if not lost and not (0 <= owner < len(alive) and not alive[owner]):
        return "goes on"
    return "moves" if may_move(active, alive, degrade=degrade) else "model died"


def may_move(active: ActiveRequest, alive: Sequence[bool], *, degrade: bool) -> bool:
    """Whether a living model may go on with the request."""
    return degrade and active.routed and any(alive)
