"""What a step of the engine shows to a router."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trrouters.routed_request import RoutedRequest

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

    Tensor = torch.Tensor
    Destinations = Tensor | NDArray[np.integer[Any]]
else:
    Tensor = Destinations = Any
"""`LongTensor[batch]` or an integer numpy array of that shape: 0 = stay here, k = to peer k."""


@dataclass(frozen=True, slots=True)
class LogitsOutput:
    """Engine outputs, on the engine's device, valid until the engine's next step.

    Attributes:
        next_token_logits: `[batch, vocab]` float32, before temperature and filters; None unless the
            router needs "logits".
        hidden_states: `[batch, hidden]` float32, last layer after the final norm (what the LM head
            sees); None unless the router needs "hidden_states".
        token_embeddings: `[batch, hidden]` float32, input embedding of the sampled tokens; None
            unless the router needs "token_embedding".
        extra_logits: `[batch, extra]` float32, rows of the model's own LM head beyond its
            vocabulary, split off before softmax and sampling (Co-LLM's deferral row); None unless
            the router needs "extra_logits".
    """

    next_token_logits: Tensor | None = None
    hidden_states: Tensor | None = None
    token_embeddings: Tensor | None = None
    extra_logits: Tensor | None = None


@dataclass(frozen=True, slots=True)
class RouteResult:
    """One finished step, row i of every tensor belonging to `requests[i]`.

    Attributes:
        requests: in the tensors' order.
        next_token_ids: `[batch]` int64, the sampled tokens: a LongTensor on the engine's device, or
            a numpy array where the engine has no tensors (`profile`; all, without torch).
        logits_output: what else the router needs.
    """

    requests: Sequence[RoutedRequest]
    next_token_ids: Tensor | NDArray[np.int64]
    logits_output: LogitsOutput
