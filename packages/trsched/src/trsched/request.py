"""What a client asks of a group, and what it gets back, before any text exists."""

from __future__ import annotations

from typing import Literal

import msgspec

from trsched.errors import RequestError

FinishReason = Literal["stop", "length", "abort", "deadline", "error", "shutdown"]
"""`stop`: a stop token, or a stop string found by the caller; `length`: `max_tokens` reached."""

MAX_LOGPROBS = 20


class SamplingParams(msgspec.Struct, frozen=True, array_like=True):
    """How a model's logits become a token.

    temperature: 0 is greedy.
    top_p: nucleus mass in (0, 1].
    top_k: 0 keeps all tokens.
    seed: 64-bit unsigned; the same seed gives the same tokens whatever else is being served.
    logprobs: number of top alternatives (0 … 20) to report with each token, None for none at all.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int = 0
    logprobs: int | None = None

    def check(self) -> None:
        """Raises RequestError naming the field that is out of range."""
        if not 0.0 <= self.temperature <= 100.0:
            raise RequestError("temperature must be from 0 to 100", param="temperature")
        if not 0.0 < self.top_p <= 1.0:
            raise RequestError("top_p must be above 0 and at most 1", param="top_p")
        if not 0 <= self.top_k < 1 << 31:
            raise RequestError("top_k must be from 0 (all tokens) to 2147483647", param="top_k")
        if not 0 <= self.seed < 1 << 64:
            raise RequestError("seed must be an unsigned 64-bit integer", param="seed")
        if self.logprobs is not None and not 0 <= self.logprobs <= MAX_LOGPROBS:
            raise RequestError(f"logprobs must be from 0 to {MAX_LOGPROBS}", param="top_logprobs")


class ModelSampling(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A model's own sampling, with ranges as in SamplingParams.

    A field that is set replaces the request's value for every token that this model makes (what a
    request says there is ignored in this model); None keeps the request's.
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None

    def over(self, request: SamplingParams) -> SamplingParams:
        """What this model samples with for `request`. Seed and logprobs are the request's."""
        own = {
            name: value for name, value in msgspec.structs.asdict(self).items() if value is not None
        }
        return msgspec.structs.replace(request, **own)


class GenerateRequest(msgspec.Struct, frozen=True):
    """One response to generate.

    request_id: the caller's id, for logs only.
    stop_token_ids: tokens that end the response (and are not part of its text).
    timeout_s: seconds from submission until the request ends with reason `deadline`; None for no
        limit.
    threshold: the request's own value of the router's `threshold_setting`; None: the router's.
    only: index of the one model that writes it all, as if the group had no other and no router; it
        ends with that model, whatever `on_peer_death` says.
    """

    request_id: str
    prompt_ids: list[int]
    max_tokens: int
    sampling: SamplingParams = SamplingParams()
    stop_token_ids: frozenset[int] = frozenset()
    timeout_s: float | None = None
    threshold: float | None = None
    only: int | None = None


class TokenLogprobs(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Natural-log probabilities under the model that made the token, before temperature."""

    logprob: float
    top: list[tuple[int, float]]


class TokenEvent(msgspec.Struct, frozen=True, gc=False):
    """One committed token.

    position: 0 is the first output token.
    model: index in the group.
    """

    position: int
    token_id: int
    model: int
    logprobs: TokenLogprobs | None = None


class FinalEvent(msgspec.Struct, frozen=True, gc=False):
    """The one last event of every request.

    handoffs: hand-offs among models.
    degraded: a model died and the others finished alone, or the router failed and the request went
        on without it.
    error: what went wrong, for reason `error`.
    """

    reason: FinishReason
    handoffs: int = 0
    degraded: bool = False
    error: str | None = None


Event = TokenEvent | FinalEvent
