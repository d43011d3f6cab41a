"""llama.cpp's own speculative decoding: the small model drafts, the large one verifies."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.load.event_stream import post_stream
from benchmarks.load.system import TimedResponse, WorkItem
from benchmarks.systems.llama_server import LlamaServer, gguf_path, llama_server
from benchmarks.systems.llama_server_process import Settings


class Speculative:
    """The large model's tokens, greedy, with drafts; implements `System`.

    drafted, accepted: tokens that the small model proposed, and those that stood, so far.
    """

    def __init__(self, name: str, server: LlamaServer) -> None:
        self.name = name
        self.drafted = 0
        self.accepted = 0
        self._server = server

    @property
    def configuration(self) -> dict[str, Any]:
        """Everything that decides how fast it is, printed with the result."""
        settings = msgspec.to_builtins(self._server.settings)
        models = {key: Path(settings[key]).name for key in ("model", "draft_model")}
        return {
            "server": "llama.cpp's own with draft-simple speculation, from the wheel xllamacpp",
            **settings,
            **models,
            "drafted": self.drafted,
            "accepted": self.accepted,
        }

    async def serve(self, item: WorkItem) -> TimedResponse:
        """One request, streamed; a step's accepted tokens come together. Models are unknown."""
        body = json.dumps(
            {
                "prompt": item.prompt_ids,
                "n_predict": item.max_tokens,
                "temperature": 0,
                "return_tokens": True,
                "stream": True,
            }
        ).encode()
        outcome = TimedResponse(time.perf_counter())
        server = self._server
        await post_stream(
            self.name, server.port, server.path, body, lambda chunk: self._take(outcome, chunk)
        )
        return outcome

    def _take(self, outcome: TimedResponse, chunk: dict[str, Any]) -> None:
        now = time.perf_counter()
        if chunk["stop"]:
            self.drafted += chunk["timings"].get("draft_n", 0)
            self.accepted += chunk["timings"].get("draft_n_accepted", 0)
            return
        tokens = chunk["tokens"]
        outcome.tokens += tokens
        outcome.models += [-1] * len(tokens)
        outcome.times += [now] * len(tokens)


@contextmanager
def speculative(
    large: Mapping[str, Any],
    small: Mapping[str, Any],
    *,
    concurrency: int,
    context: int,
    threads: int,
    draft_max: int = 3,
    draft_p_min: float = 0.0,
) -> Iterator[Speculative]:
    """The server with both models (as in a group's file, GGUF), until the block ends.

    Its slots speculate independently, any number at once.

    draft_max: tokens that are proposed a step, at most.
    draft_p_min: the probability that each must have. Both defaults are llama.cpp's own.
    """
    settings = Settings(
        gguf_path(large),
        concurrency,
        context,
        threads,
        draft_model=gguf_path(small),
        draft_max=draft_max,
        draft_p_min=draft_p_min,
    )
    with llama_server(settings) as server:
        yield Speculative("speculative", server)
