"""A streaming client of the chat endpoint that knows which model made each token."""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import httpx

Message = dict[str, str]

_TIMEOUT = httpx.Timeout(10.0, read=None)  # a queued request may wait long for its first token


class ChatError(Exception):
    """The server cannot be reached or refuses; the message says which."""


@dataclass(frozen=True, slots=True)
class Fragment:
    """Text and the model (index) that made it."""

    text: str
    model: int


@dataclass(slots=True)
class Answer:
    """One answer, filled while `ChatClient.ask` runs.

    ttft_s: seconds from the request to the first token; seconds: to the end.
    """

    models: list[str]
    text: str = ""
    model_per_token: list[int] = field(default_factory=list)
    handoffs: int = 0
    finish_reason: str | None = None
    ttft_s: float | None = None
    seconds: float = 0.0

    @property
    def tokens_per_model(self) -> dict[str, int]:
        """Tokens by the name of the model that made them."""
        return {name: self.model_per_token.count(i) for i, name in enumerate(self.models)}

    @property
    def tokens_per_s(self) -> float:
        """Tokens over the seconds from the request to the end."""
        return len(self.model_per_token) / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class Sampling:
    """How answers are made.

    max_tokens: of an answer.
    temperature: 0 takes the likeliest token.
    seed: None for a fresh one each time.
    """

    max_tokens: int = 512
    temperature: float = 0.0
    seed: int | None = None


class ChatClient:
    """One server, found at construction. Raises ChatError when there is none.

    served_name: what the server calls its group; models: the names of the group's models.
    """

    def __init__(
        self, url: str, api_key: str | None = None, transport: httpx.BaseTransport | None = None
    ) -> None:
        headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
        base = url.rstrip("/").removesuffix("/v1")
        try:
            self._http = httpx.Client(
                base_url=base, headers=headers, timeout=_TIMEOUT, transport=transport
            )
        except (httpx.InvalidURL, ValueError) as error:
            raise ChatError(f"{url!r} is no URL of a server: {error}") from error
        try:
            self.served_name = str(self._get("/v1/models")["data"][0]["id"])
            self.models = [str(model["name"]) for model in self._get("/health")["subservers"]]
        except (LookupError, TypeError, ValueError) as error:
            self._http.close()
            raise ChatError(f"{url} is no trserve server") from error
        except ChatError:
            self._http.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.close()

    def ask(
        self,
        messages: list[Message],
        sampling: Sampling,
        answer: Answer,
        *,
        by_token: bool = True,
    ) -> Generator[Fragment, None, None]:
        """The answer's text as it comes; `answer` is filled meanwhile.

        by_token: never two models' text in one fragment (each token's own text is asked for).
        Closing the iterator ends the request on the server too. Raises ChatError.
        """
        body = {
            "model": self.served_name,
            "messages": messages,
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "stream": True,
            "stream_options": {"include_usage": True},
            "tokenrouter": {"model_per_token": True},
            "logprobs": by_token,
        }
        if sampling.seed is not None:
            body["seed"] = sampling.seed
        started = time.perf_counter()
        try:
            with self._http.stream("POST", "/v1/chat/completions", json=body) as response:
                if response.is_error:
                    response.read()
                    raise ChatError(_refusal(response))
                for chunk in _chunks(response):
                    yield from _take(chunk, answer, started)
        except httpx.HTTPError as error:
            raise ChatError(self._trouble(error)) from error
        finally:
            answer.seconds = time.perf_counter() - started

    def _get(self, path: str) -> Any:
        try:
            response = self._http.get(path)
        except httpx.UnsupportedProtocol as error:
            raise ChatError(f"{self._http.base_url} is no URL: it begins with http://") from error
        except httpx.HTTPError as error:
            raise ChatError(self._trouble(error)) from error
        if response.is_error and path != "/health":  # an ailing group still names its models
            raise ChatError(_refusal(response))
        return response.json()

    def _trouble(self, error: httpx.HTTPError) -> str:
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            return f"no server answers at {self._http.base_url} ({error})"
        return (
            f"the connection to {self._http.base_url} broke ({str(error) or type(error).__name__})"
        )


def _chunks(response: httpx.Response) -> Iterator[dict[str, Any]]:
    for line in response.iter_lines():
        data = line.removeprefix("data:").strip()
        if not line.startswith("data:") or data == "[DONE]":
            continue
        chunk = json.loads(data)
        if "error" in chunk:
            raise ChatError(str(chunk["error"].get("message", chunk["error"])))
        yield chunk


def _take(chunk: dict[str, Any], answer: Answer, started: float) -> Iterator[Fragment]:
    """Add a chunk to the answer."""
    usage = chunk.get("usage")
    if usage is not None:
        answer.handoffs = usage["tokenrouter"]["handoffs"]
    for choice in chunk["choices"]:
        made = (choice.get("tokenrouter") or {}).get("models") or []
        if made and answer.ttft_s is None:
            answer.ttft_s = time.perf_counter() - started
        answer.model_per_token += made
        answer.finish_reason = choice.get("finish_reason") or answer.finish_reason
        text = choice["delta"].get("content")
        if text:
            answer.text += text
            yield from _fragments(text, answer, made, choice.get("logprobs"))


def _fragments(
    text: str, answer: Answer, made: list[int], logprobs: dict[str, Any] | None
) -> list[Fragment]:
    """One fragment per token where several models made a chunk, else the chunk's text."""
    if len(set(made)) > 1 and logprobs is not None:
        pieces = [bytes(token["bytes"]).decode("utf-8", "replace") for token in logprobs["content"]]
        if len(pieces) == len(made) and "".join(pieces) == text:
            return [Fragment(piece, model) for piece, model in zip(pieces, made, strict=True)]
    return [Fragment(text, answer.model_per_token[-1] if answer.model_per_token else 0)]


def _refusal(response: httpx.Response) -> str:
    try:
        return str(response.json()["error"]["message"])
    except (ValueError, LookupError, TypeError):
        return f"the server answers {response.status_code} {response.reason_phrase}"
