"""From a request's body to what the gateway needs to know of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from trsched.errors import ConfigError
from trserve.gateway.config.checks import weights_of
from trserve.gateway.pool.instance import capability_bits
from trserve.gateway.request.parsed_body import ParsedBody, RouteOptions
from trserve.http.errors import ApiError

Raw = msgspec.Raw
Kind = Literal["chat", "completions"]

_CHARS_PER_TOKEN = 4
_TOKENS_PER_MESSAGE = 4
_MEDIA = ("image", "audio", "video")  # in parts' types: image_url, input_audio, …
_NOTHING = (b"null", b"[]", b"{}", b"false", b"0", b"1", b'""')


class _Part(msgspec.Struct):
    type: str = "text"
    text: str = ""


class _Typed(msgspec.Struct):
    type: Any = None


class _Message(msgspec.Struct):
    content: str | list[_Part] | None = None
    role: str = ""


_FIELDS = msgspec.json.Decoder(dict[str, Raw])
_MESSAGES = msgspec.json.Decoder(list[_Message])
_PROMPT = msgspec.json.Decoder(str | list[Any])


def parse_body(body: bytes, kind: Kind | None) -> ParsedBody:
    """Raises ApiError (400) naming the field; only what the gateway itself needs is looked at.

    kind: None: as the body shows.
    """
    fields = _fields(body)
    if kind is None:
        kind = "completions" if "prompt" in fields and "messages" not in fields else "chat"
    model = _read(fields, "model", str)
    if not model:
        raise ApiError(400, "'model' is missing.", param="model", code="missing_parameter")
    options = _options(fields)
    _check_extension(fields)
    stream = bool(_read(fields, "stream", bool | None))
    if kind == "chat":
        prompt, tokens, images = _conversation(fields)
    else:
        (prompt, tokens), images = _text(fields), False
    limit = _positive(fields, "max_completion_tokens") or _positive(fields, "max_tokens")
    weights = options.weights
    try:
        chosen = None if weights is None else weights_of(weights, "routebalance.weights")
    except ConfigError as error:
        raise _wrong(error.field, error.message) from error
    return ParsedBody(
        fields=fields,
        model=model,
        stream=stream,
        prompt=prompt,
        prompt_tokens=tokens,
        max_tokens=limit,
        needs=_needs(fields, images),
        options=options,
        weights=chosen,
        max_usd=_ceiling(options.max_usd, "max_usd"),
        max_seconds=_ceiling(options.max_seconds, "max_seconds"),
    )


def _fields(body: bytes) -> dict[str, Raw]:
    try:
        return _FIELDS.decode(body)
    except msgspec.ValidationError as error:
        raise _wrong("body", "must be a JSON object") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        message = "The request body is not valid JSON in UTF-8."
        raise ApiError(400, message, code="invalid_json") from error


def _read(fields: dict[str, Raw], name: str, kind: Any) -> Any:
    raw = fields.get(name)
    if raw is None:
        return None
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _wrong(name, _said(error)) from error


def _options(fields: dict[str, Raw]) -> RouteOptions:
    raw = fields.pop("routebalance", None)
    if raw is None or bytes(raw) == b"null":
        return RouteOptions()
    try:
        return msgspec.json.decode(raw, type=RouteOptions)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        message, _, path = str(error).partition(" - at `$")
        raise _wrong("routebalance" + path.rstrip("`"), message) from error


def _check_extension(fields: dict[str, Raw]) -> None:
    """`tokenrouter`, to which an instance may add: an object, or not there."""
    if (raw := fields.get("tokenrouter")) is None:
        return
    if bytes(raw) == b"null":
        del fields["tokenrouter"]
        return
    try:
        _FIELDS.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _wrong("tokenrouter", "must be an object") from error


def _conversation(fields: dict[str, Raw]) -> tuple[str, int, bool]:
    """The last user message, a guess of the tokens of all, and whether there are media."""
    raw = fields.get("messages")
    if raw is None:
        raise ApiError(400, "'messages' is missing.", param="messages", code="missing_parameter")
    try:
        messages = _MESSAGES.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _wrong("messages", _said(error)) from error
    if not messages:
        raise _wrong("messages", "must not be empty")
    texts = [_text_of(message.content) for message in messages]
    tokens = sum(map(tokens_of, texts)) + _TOKENS_PER_MESSAGE * len(texts)
    users = [text for text, each in zip(texts, messages, strict=True) if each.role == "user"]
    images = any(
        any(word in part.type for word in _MEDIA)
        for each in messages
        if isinstance(each.content, list)
        for part in each.content
    )
    return (users or texts)[-1], tokens, images


def _text(fields: dict[str, Raw]) -> tuple[str, int]:
    """The first prompt, and the tokens of the longest; they may be given as tokens."""
    raw = fields.get("prompt")
    if raw is None:
        raise ApiError(400, "'prompt' is missing.", param="prompt", code="missing_parameter")
    try:
        prompt = _PROMPT.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _wrong("prompt", _said(error)) from error
    if isinstance(prompt, str):
        return prompt, tokens_of(prompt)
    if not prompt:
        raise _wrong("prompt", "must not be empty")
    if all(isinstance(each, int) for each in prompt):
        return "", len(prompt)
    first = prompt[0] if isinstance(prompt[0], str) else ""
    longest = max(tokens_of(p) if isinstance(p, str) else _length(p) for p in prompt)
    return first, longest


def tokens_of(text: str) -> int:
    """About how many tokens a text has."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return -(-size // _CHARS_PER_TOKEN)


def _text_of(content: str | Sequence[_Part] | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(part.text for part in content)


def _length(value: object) -> int:
    return len(value) if isinstance(value, list) else 1


def _needs(fields: dict[str, Raw], images: bool) -> int:
    """Bits of what an instance must be able to do; a field that asks for nothing needs nothing."""

    def asks(*names: str) -> bool:
        return any(bytes(fields[name]) not in _NOTHING for name in names if name in fields)

    needs = []
    if asks("tools", "functions"):
        needs.append("tools")
    if "logprobs" in fields and bytes(fields["logprobs"]) not in (b"null", b"false"):
        needs.append("logprobs")
    if asks("n", "best_of"):
        needs.append("n")
    if images:
        needs.append("images")
    if asks("response_format") and _read(fields, "response_format", _Typed).type != "text":
        needs.append("json")
    return capability_bits(needs) if needs else 0


def _positive(fields: dict[str, Raw], name: str) -> int | None:
    value: int | None = _read(fields, name, int | None)
    if value is not None and not 1 <= value < 2**31:
        raise _wrong(name, f"must be from 1 to 2147483647, not {value}")
    return value


def _ceiling(value: float | None, name: str) -> float:
    if value is None:
        return math.inf
    if not value >= 0:
        raise _wrong(f"routebalance.{name}", f"must be 0 or more, not {value}")
    return value


def _wrong(param: str, message: str) -> ApiError:
    return ApiError(400, f"'{param}': {message}.", param=param, code="invalid_value")


def _said(error: Exception) -> str:
    text = str(error).partition(" - at `")[0]
    return text[:1].lower() + text[1:]
