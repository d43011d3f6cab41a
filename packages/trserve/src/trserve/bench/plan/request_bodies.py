"""The bodies of requests, in the order in which they are sent."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Literal

import msgspec
import numpy as np

from trserve.bench.plan.made_up_prompts import MadeUpPrompts
from trserve.bench.plan.prompts import Prompt
from trserve.bench.plan.token_counts import TokenCounts

Endpoint = Literal["chat", "completions"]


@dataclass(frozen=True, slots=True)
class BodyForm:
    """What is the same in all requests.

    extra: fields that are added, or replace ours.
    """

    endpoint: Endpoint
    model: str
    stream: bool
    temperature: float | None
    extra: dict[str, Any]

    def encode(self, prompt: Prompt, max_tokens: int) -> bytes:
        """One body. Messages need the endpoint chat."""
        body: dict[str, Any] = {"model": self.model}
        if self.endpoint == "chat":
            messages = prompt if isinstance(prompt, list) else [{"role": "user", "content": prompt}]
            body["messages"] = messages
        else:
            body["prompt"] = prompt
        body["max_tokens"] = max_tokens
        if self.temperature is not None:
            body["temperature"] = self.temperature
        body["stream"] = self.stream
        if self.stream:
            body["stream_options"] = {"include_usage": True}
        return msgspec.json.encode(body | self.extra)


@dataclass(frozen=True, slots=True)
class Lengths:
    """Tokens of requests: of a trace where it tells them, else drawn."""

    drawn: TokenCounts
    traced: Iterable[float] | None

    def each(self, generator: np.random.Generator) -> Iterator[int]:
        """Without end where they are drawn; as long as the trace otherwise. At least 1 each."""
        if self.traced is None:
            while True:
                yield int(self.drawn.draw(1, generator)[0])
        for tokens in self.traced:
            known = not math.isnan(tokens)
            yield max(1, int(tokens)) if known else int(self.drawn.draw(1, generator)[0])


def request_bodies(
    form: BodyForm,
    prompts: list[Prompt] | None,
    input_tokens: Lengths,
    output_tokens: Lengths,
    seed: int,
) -> Iterator[bytes]:
    """Given prompts come in turn, again and again; else they are made up.

    What is slow is done before it returns, not when the first body is taken.
    """
    reading, writing, texts = np.random.SeedSequence(seed).spawn(3)
    lengths = output_tokens.each(np.random.default_rng(writing))
    if prompts is not None:
        return (form.encode(*pair) for pair in zip(cycle(prompts), lengths, strict=False))
    made_up = MadeUpPrompts(int(texts.generate_state(1)[0]))
    asked = input_tokens.each(np.random.default_rng(reading))
    return (
        form.encode(made_up.text(tokens), most)
        for tokens, most in zip(asked, lengths, strict=False)
    )
