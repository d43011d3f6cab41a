"""What one subserver sends another when it hands a request over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Extra = int | float | str | bool | NDArray[np.float32]
else:
    Extra = Any
"""Algorithm-specific payload: small scalars, or a float32 array where it needs distributions."""

NO_EXTRAS: Mapping[str, Extra] = MappingProxyType({})


class PeerReq(msgspec.Struct, frozen=True, gc=False):
    """One hand-off (TokenRouter, arXiv 2610.12242, section 3: route, send, receive).

    Attributes:
        rid: handle of the client request, the same in every subserver of the group.
        token_ids: only the suffix that the peer lacks, token ids.
        loc: tokens (prompt and output) that the request has once the suffix is applied; the peer
            answers relative to it. `loc - len(token_ids)` is where the suffix begins.
        finished: the request ends with this suffix; the peer only releases what it holds.
        extras: what an algorithm wants to tell its other side.
    """

    rid: int
    token_ids: Sequence[int]
    loc: int
    finished: bool = False
    extras: Mapping[str, Extra] = NO_EXTRAS
