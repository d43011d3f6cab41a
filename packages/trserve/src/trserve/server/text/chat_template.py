"""The chat template of a vocabulary: messages to the text that the models were trained on."""

from __future__ import annotations

import datetime as dt
import json
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from trsched.errors import ConfigError
from trsched.models.vocabulary import Vocabulary
from trserve.http.errors import ApiError

Message = Mapping[str, str]
"""`role`, `content` and perhaps `name`."""

Segment = tuple[str, bool]
"""Text, and whether the names of control tokens in it mean those tokens."""

FALLBACK_TEMPLATE = (
    "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}assistant:"
)
"""For vocabularies without a template: a line for each message, then `assistant:`."""


class _Generation(Extension):
    """`{% generation %}` marks answers for training (transformers); here it is what is inside."""

    tags = {"generation"}  # noqa: RUF012 - as its base declares it

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class ChatTemplate:
    """A compiled template, run in jinja2's immutable sandbox."""

    def __init__(self, source: str | None, *, bos_token: str = "", eos_token: str = "") -> None:
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=["jinja2.ext.loopcontrols", _Generation],
        )
        environment.globals |= {"raise_exception": _raise, "strftime_now": _strftime_now}
        environment.filters["tojson"] = _to_json
        self._template = environment.from_string(FALLBACK_TEMPLATE if source is None else source)
        self._tokens = {"bos_token": bos_token, "eos_token": eos_token}

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> ChatTemplate:
        """The template of a group's vocabulary. Raises ConfigError where it cannot be compiled."""
        try:
            return cls(
                vocabulary.chat_template,
                bos_token=vocabulary.bos_token,
                eos_token=vocabulary.eos_token,
            )
        except jinja2.TemplateSyntaxError as error:
            raise ConfigError(
                "models[0].path",
                f"the chat template of {vocabulary.name}, line {error.lineno}: {error.message}",
            ) from error

    def segments(
        self, messages: Sequence[Message], has_control_text: Callable[[str], bool]
    ) -> list[Segment]:
        """The prompt, ending where the assistant's answer begins.

        A message in which the name of a control token occurs (`has_control_text`) is put in after
        rendering, as a segment of its own that is plain text: nobody can end a turn, or begin the
        system's, by typing the token's name. Raises ApiError (400) when the template refuses.
        """
        hidden: dict[str, str] = {}
        shown = []
        for message in messages:
            if has_control_text(message["content"]):
                mark = f"[{secrets.token_hex(16)}]"
                hidden[mark] = message["content"]
                message = {**message, "content": mark}
            shown.append(message)
        text = self._render(shown)
        if not hidden:
            return [(text, True)]
        parts = re.split(f"({'|'.join(map(re.escape, hidden))})", text)
        return [(hidden.get(part, part), part not in hidden) for part in parts if part]

    def _render(self, messages: Sequence[Message]) -> str:
        try:
            return self._template.render(
                messages=messages, add_generation_prompt=True, **self._tokens
            )
        except (jinja2.TemplateError, TypeError, ValueError, LookupError, ArithmeticError) as error:
            message = f"The model's chat template does not take these messages: {error}"
            raise ApiError(400, message, param="messages", code="invalid_messages") from error


def _raise(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _strftime_now(pattern: str) -> str:
    return dt.datetime.now().astimezone().strftime(pattern)


def _to_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)
