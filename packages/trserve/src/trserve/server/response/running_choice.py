"""One choice as it is generated: the group's events in, text and tokens out."""

from __future__ import annotations

from collections.abc import Sequence

from trsched.request import Event, FinalEvent, FinishReason, TokenEvent
from trserve.openai.schemas.chat_response import FinishReason as OpenAIFinishReason
from trserve.server.text.detokenizer import Detokenizer
from trserve.server.text.stop_strings import StopStrings
from trserve.server.text.tokenizer import Tokenizer


class RunningChoice:
    """Fed by `receive`, emptied by `take`.

    index: the choice's place in the response.
    tokens_by_model: tokens that count, those of a stop string and the stop token among them.
    final: the final event, once it came.
    stopped: a stop string was found, so later tokens do not count.
    first_at: when the first token came, in seconds of `time.perf_counter`; None before.
    last_at: when the last token came, likewise.
    """

    __slots__ = (
        "_detokenizer",
        "_offset",
        "_offsets",
        "_pieces",
        "_stops",
        "_texts",
        "_tokens",
        "final",
        "first_at",
        "index",
        "last_at",
        "stopped",
        "tokens_by_model",
    )

    def __init__(
        self, index: int, tokenizer: Tokenizer, stops: Sequence[str], model_count: int
    ) -> None:
        self.index = index
        self.tokens_by_model = [0] * model_count
        self.final: FinalEvent | None = None
        self.stopped = False
        self.first_at: float | None = None
        self.last_at = 0.0
        self._pieces = tokenizer.pieces
        self._detokenizer = Detokenizer()
        self._stops = StopStrings(stops) if stops else None
        self._texts: list[str] = []
        self._tokens: list[TokenEvent] = []
        self._offsets: list[int] = []
        self._offset = 0

    @property
    def token_count(self) -> int:
        """Tokens that count."""
        return sum(self.tokens_by_model)

    @property
    def finish_reason(self) -> FinishReason | None:
        """Why it ended; None while it goes on."""
        if self.final is None:
            return None
        return "stop" if self.stopped else self.final.reason

    @property
    def openai_finish_reason(self) -> OpenAIFinishReason | None:
        """The finish reason of a choice that is complete; None of any other."""
        match self.finish_reason:
            case "stop" | "length" as reason:
                return reason
            case _:
                return None

    @property
    def seconds_per_token(self) -> float | None:
        """Mean time from a token to the next; None with fewer than two."""
        count = self.token_count
        if self.first_at is None or count < 2:
            return None
        return (self.last_at - self.first_at) / (count - 1)

    @property
    def degraded(self) -> bool:
        """A model died and the others wrote the rest, or the router failed on the way."""
        return self.final is not None and self.final.degraded

    def receive(self, events: Sequence[Event], now: float) -> None:
        """Take events in order. Sets `stopped` with the token that completes a stop string."""
        for event in events:
            if isinstance(event, FinalEvent):
                self._end(event)
            elif not self.stopped:
                self._add(event, now)

    def take(self) -> tuple[str, list[TokenEvent], list[int]]:
        """What came since the last call: text, tokens and each token's offset in the text."""
        taken = "".join(self._texts), self._tokens, self._offsets
        self._texts, self._tokens, self._offsets = [], [], []
        return taken

    def _add(self, token: TokenEvent, now: float) -> None:
        if self.first_at is None:
            self.first_at = now
        self.last_at = now
        self.tokens_by_model[token.model] += 1
        self._tokens.append(token)
        self._offsets.append(self._offset)
        self._pass_on(self._detokenizer.push(self._pieces[token.token_id]))

    def _end(self, final: FinalEvent) -> None:
        self.final = final
        if not self.stopped:
            self._pass_on(self._detokenizer.finish())
            if self._stops is not None:
                self._texts.append(self._stops.finish())

    def _pass_on(self, text: str) -> None:
        if text:
            self._offset += len(text)
            if self._stops is not None:
                text = self._stops.push(text)
                self.stopped = self._stops.found
            self._texts.append(text)
