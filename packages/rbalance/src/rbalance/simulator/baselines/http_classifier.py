"""The classifier as a service over HTTP, as vLLM Semantic Router's classification API has it."""

from __future__ import annotations

import urllib.request
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, ClassVar

import msgspec

from rbalance.errors import ConfigError
from rbalance.simulator.baselines.semantic_router import TIMEOUT_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rbalance.policies.batch import RequestBatch


class _Classification(msgspec.Struct):
    category: str


class _Answer(msgspec.Struct):
    classification: _Classification


class HttpClassifier:
    """POST {"text": prompt} to `url`, answered by {"classification": {"category": ...}}.

    All prompts of a batch are asked at the same time, `connections` of them, and together they have
    `timeout_s` seconds; what is not there by then has no category. Errors count like slowness.
    """

    uses_vectors: ClassVar[bool] = False

    def __init__(self, url: str, timeout_s: float = TIMEOUT_S, connections: int = 16) -> None:
        """Raises ConfigError: no HTTP address, or no time at all."""
        if not url.startswith(("http://", "https://")):
            raise ConfigError("classifier.url", f"must begin with http:// or https://: {url!r}")
        if not timeout_s > 0:
            raise ConfigError("classifier.timeout_s", f"must be above 0, not {timeout_s}")
        self._url = url
        self._timeout_s = timeout_s
        self._pool = ThreadPoolExecutor(connections, thread_name_prefix="classifier")

    def categories(self, batch: RequestBatch) -> Sequence[str | None]:
        """The category of each prompt, None for what failed or came too late."""
        asked = [self._pool.submit(self._ask, prompt) for prompt in batch.prompts]
        wait(asked, self._timeout_s)
        for future in asked:
            future.cancel()
        return [future.result() if _answered(future) else None for future in asked]

    def close(self) -> None:
        """End its threads, each within the timeout."""
        self._pool.shutdown()

    def _ask(self, prompt: str) -> str:
        request = urllib.request.Request(
            self._url,
            msgspec.json.encode({"text": prompt}),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=self._timeout_s) as response:
            return msgspec.json.decode(response.read(), type=_Answer).classification.category


def _answered(future: Future[str]) -> bool:
    return future.done() and not future.cancelled() and future.exception() is None
