"""What requests say, made definite before anything is sent."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec

from trsched.errors import ConfigError
from trserve.bench.plan.load_plan import ClosedLoad, OpenLoad
from trserve.bench.plan.prompts import Prompt, read_prompts
from trserve.bench.plan.request_bodies import BodyForm, Endpoint, Lengths, request_bodies
from trserve.bench.plan.token_counts import token_counts

_DEFAULT_TOKENS = "128"
_KEY_VARIABLES = ("TRSERVE_API_KEY", "OPENAI_API_KEY")
_WARM_UP_SEED = 0x57A2  # prompts of the warm-up are none of the load's


@dataclass(frozen=True, slots=True)
class RequestOptions:
    """What the command line asks for; None where it doesn't say."""

    endpoint: str
    model: str | None
    prompts: Path | None
    input_tokens: str | None
    output_tokens: str | None
    temperature: float | None
    stream: bool
    extra_body: str | None
    headers: Sequence[str]
    api_key: str | None
    timeout: float


@dataclass(frozen=True, slots=True)
class RequestPlan:
    """Checked.

    headers: with the key's.
    form: its model is empty until the server was asked.
    """

    form: BodyForm
    prompts: list[Prompt] | None
    input_tokens: Lengths
    output_tokens: Lengths
    headers: dict[str, str]
    timeout: float
    seed: int

    def named(self, model: str) -> RequestPlan:
        """The same, of this model."""
        return replace(self, form=replace(self.form, model=model))

    def bodies(self) -> Iterator[bytes]:
        """As many as a trace has requests, else without end."""
        return request_bodies(
            self.form, self.prompts, self.input_tokens, self.output_tokens, self.seed
        )

    def warm_up_bodies(self) -> Iterator[bytes]:
        """Without end; of the same lengths, as far as they are drawn.

        Made up even where prompts are given, so that these are in no cache when they are measured.
        """
        return request_bodies(
            self.form,
            None,
            replace(self.input_tokens, traced=None),
            replace(self.output_tokens, traced=None),
            self.seed ^ _WARM_UP_SEED,
        )


def plan_requests(options: RequestOptions, load: OpenLoad | ClosedLoad, seed: int) -> RequestPlan:
    """Raises ConfigError naming the flag at fault."""
    if options.endpoint not in {"chat", "completions"}:
        raise ConfigError("--endpoint", f"expected chat or completions, not {options.endpoint!r}")
    if not 0 < options.timeout < math.inf:
        raise ConfigError("--timeout", f"must be above 0, not {options.timeout}")
    form = BodyForm(
        endpoint=cast(Endpoint, options.endpoint),
        model=_utf8(options.model or "", "--model"),
        stream=options.stream,
        temperature=options.temperature,
        extra=_extra(options.extra_body),
    )
    return RequestPlan(
        form=form,
        prompts=_prompts(options),
        input_tokens=_lengths(options.input_tokens, "--input-tokens", load),
        output_tokens=_lengths(options.output_tokens, "--output-tokens", load),
        headers=_headers(options),
        timeout=options.timeout,
        seed=seed,
    )


def server_url(url: str) -> str:
    """Without a path /v1 and a last slash. Raises ConfigError, without a password of the URL."""
    base = url.rstrip("/").removesuffix("/v1")
    if any(mark in base for mark in "@?#"):
        raise ConfigError("URL", "expected no user, query or fragment; for a key, see --api-key")
    try:
        parts = urlsplit(base)
        good = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        good = False
    if not good:
        raise ConfigError("URL", f"expected one like http://127.0.0.1:8000, not {url!r}")
    return base


def _lengths(text: str | None, field: str, load: OpenLoad | ClosedLoad) -> Lengths:
    """A flag beats the trace."""
    drawn = token_counts(text or _DEFAULT_TOKENS, field)
    if text is not None or isinstance(load, ClosedLoad):
        return Lengths(drawn, None)
    return Lengths(drawn, load.input_tokens if field == "--input-tokens" else load.output_tokens)


def _prompts(options: RequestOptions) -> list[Prompt] | None:
    if options.prompts is None:
        return None
    if options.input_tokens is not None:
        raise ConfigError("--input-tokens", "is for made-up prompts, not with --prompts")
    prompts = read_prompts(options.prompts, "--prompts")
    if options.endpoint == "completions" and any(isinstance(each, list) for each in prompts):
        raise ConfigError("--prompts", "messages need --endpoint chat")
    return prompts


def _extra(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        return msgspec.json.decode(_utf8(text, "--extra-body"), type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        raise ConfigError("--extra-body", f"expected a JSON object: {error}") from error


def _utf8(text: str, field: str) -> str:
    """Bytes of the command line that are no UTF-8 come in strings that cannot be sent."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(field, "expected UTF-8 text") from error
    return text


def _headers(options: RequestOptions) -> dict[str, str]:
    headers = {}
    for line in options.headers:
        name, colon, value = line.partition(":")
        if not (name.strip() and colon) or any(c in line for c in "\r\n\0"):
            raise ConfigError("--header", f"expected NAME: VALUE, not {line!r}")
        headers[name.strip()] = value.strip()
    key = _key(options.api_key)
    if key and "authorization" not in map(str.lower, headers):
        headers["Authorization"] = f"Bearer {key}"
    return headers


def _key(given: str | None) -> str | None:
    """The flag's, else a variable's."""
    sources = {"--api-key": given} | {name: os.environ.get(name) for name in _KEY_VARIABLES}
    for source, key in sources.items():
        if not key:
            continue
        if not key.isprintable():
            raise ConfigError(source, "has characters that no header can hold, maybe a line break")
        return key
    return None
