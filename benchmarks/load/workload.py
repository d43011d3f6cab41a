"""The three workloads: how long prompts and responses are, and real prompts of those lengths.

Prompts are questions of the held-out set, one after another. Each begins with a tag of its own, so
that no two requests share more of a prefix than the opening of a chat turn, and a prefix cache
helps a request only with what the same request left behind.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import NormalDist

import numpy as np

from benchmarks.load.system import WorkItem
from trrouters.training.prompts import HELD_OUT, read_prompts
from trsched.models.vocabulary import ByteVocabulary
from trserve.server.text.tokenizer import Tokenizer

Encode = Callable[[str], Sequence[int]]
"""Text to token ids, without control tokens."""

LEAST_PROMPT = 4
"""Tokens. Within them two tags differ, for up to 702 items and seeds below 100."""

AT_CAP = 0.2
SIGMA = 0.6
"""Response lengths are lognormal and cut at the cap: reasoning traces have a long tail, most run
beyond half the cap (62 %), and a fifth never comes to an end. Median 0.60 of the cap, mean 0.63."""


@dataclass(frozen=True)
class WorkloadShape:
    """Lengths in tokens, before scaling. Prompts are `prompt` ± `spread`, evenly."""

    name: str
    prompt: int
    spread: int
    cap: int

    def longest_prompt(self, scale: float) -> int:
        return max(LEAST_PROMPT, round((self.prompt + self.spread) * scale))

    def longest_output(self, scale: float) -> int:
        return max(1, round(self.cap * scale))


WORKLOADS = {
    workload.name: workload
    for workload in (
        WorkloadShape("low-effort", prompt=100, spread=25, cap=2048),
        WorkloadShape("high-effort", prompt=100, spread=25, cap=8192),
        WorkloadShape("agentic", prompt=8192, spread=0, cap=1024),
    )
}


@dataclass(frozen=True)
class ChatFrame:
    """What a chat template puts around a user's text, as token ids."""

    head: tuple[int, ...] = ()
    tail: tuple[int, ...] = ()

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> ChatFrame:
        """Around the user's turn; an earlier turn, which all requests would share, is left out."""
        text = "Why?"
        ids = tokenizer.encode_chat_now([{"role": "user", "content": text}])
        body = tokenizer.vocabulary.encode(text, special=False)
        starts = range(len(ids) - len(body) + 1)
        at = max(start for start in starts if ids[start : start + len(body)] == body)
        ends = (place + 1 for place in range(at) if ids[place] in tokenizer.stop_ids)
        return cls(tuple(ids[max(ends, default=0) : at]), tuple(ids[at + len(body) :]))

    def around(self, body: Sequence[int], length: int) -> tuple[int, ...]:
        """`length` ids; the body alone where the frame would be more than half of them."""
        room = length - len(self.head) - len(self.tail)
        if 2 * room < length:
            return tuple(body[:length])
        return (*self.head, *body[:room], *self.tail)


def byte_encode(text: str) -> list[int]:
    """For the profile engine, whose vocabulary is the bytes."""
    return ByteVocabulary().encode(text, special=False)


def context_needed(workload: WorkloadShape, scale: float) -> int:
    """Tokens that the longest request can have, prompt and response."""
    return workload.longest_prompt(scale) + workload.longest_output(scale)


def items(
    workload: WorkloadShape,
    n: int,
    scale: float,
    seed: int,
    encode: Encode,
    frame: ChatFrame | None = None,
    stretch: int | None = None,
) -> list[WorkItem]:
    """`n` requests, the same for the same arguments; another seed gives other prompts throughout.

    Lengths are drawn one from each n-th of their distribution and shuffled, so that few requests
    have its mean too.

    stretch: each request is only so many tokens of a response, from a random place in it, what
        comes before that place being part of the prompt. A long response is met as much more often
        as it is longer. Where prompts cost nothing, speeds are those of whole responses.
    """
    rng = np.random.default_rng([seed, zlib.crc32(workload.name.encode())])
    shares = [(rng.permutation(n) + rng.random(n)) / max(n, 1) for _ in range(2)]
    questions = read_prompts(HELD_OUT)
    found = []
    for number in range(n):
        prompt = workload.prompt + workload.spread * (2 * shares[0][number] - 1)
        length = max(LEAST_PROMPT, round(prompt * scale))
        share = shares[1][number]
        if stretch is not None:
            share = share_of_tokens(workload, share)
        output = max(1, round(output_length(workload, share) * scale))
        if stretch is not None and output > stretch:
            length += int(rng.integers(output - stretch + 1))
            output = stretch
        order = rng.permutation(len(questions))
        text = f"{_tag(number, seed)}: " + " ".join(questions[i] for i in order)
        body = _at_least(length, text, encode)
        found.append(
            WorkItem(
                number=number,
                prompt_ids=(frame or ChatFrame()).around(body, length),
                max_tokens=output,
                seed=int(rng.integers(2**31)),
            )
        )
    return found


def output_length(workload: WorkloadShape, share: float) -> float:
    """The response length, unscaled, that `share` (in [0, 1)) of the responses stay below."""
    normal = NormalDist()
    spread = SIGMA * (normal.inv_cdf(max(share, 1e-9)) - normal.inv_cdf(1 - AT_CAP))
    return float(workload.cap * min(1.0, np.exp(spread)))


def share_of_tokens(workload: WorkloadShape, share: float) -> float:
    """The share of responses up to the one in which `share` of all responses' tokens are passed."""
    below = (np.arange(1000) + 0.5) / 1000
    tokens = np.cumsum([output_length(workload, each) for each in below])
    return float(below[np.searchsorted(tokens, share * tokens[-1])])


def _tag(number: int, seed: int) -> str:
    letters = chr(ord("A") + number % 26)
    while number := number // 26:
        letters += chr(ord("a") + (number - 1) % 26)
    return f"{letters}{seed}"


def _at_least(length: int, text: str, encode: Encode) -> list[int]:
    ids = list(islice(encode(text), length))
    while len(ids) < length:
        ids += encode(" " + text)
    return ids
