"""Log probabilities in OpenAI's two formats."""

from __future__ import annotations

from collections.abc import Sequence

from trsched.request import TokenEvent, TokenLogprobs
from trserve.openai.schemas.chat_response import ChatLogprobs, TokenLogprob, TopLogprob
from trserve.openai.schemas.completion_response import CompletionLogprobs
from trserve.server.text.tokenizer import Tokenizer

_LEAST = -9999.0
"""OpenAI's stand-in for minus infinity, which JSON does not have."""


def chat_logprobs(
    tokenizer: Tokenizer, tokens: Sequence[TokenEvent], offsets: Sequence[int]
) -> ChatLogprobs:
    """Of a chat choice, with the bytes of every token; offsets are not told."""
    del offsets
    content = []
    for token in tokens:
        known = _known(token)
        top = [_entry(tokenizer, other, logprob) for other, logprob in known.top]
        entry = _entry(tokenizer, token.token_id, known.logprob)
        content.append(TokenLogprob(**entry.model_dump(), top_logprobs=top))
    return ChatLogprobs(content=content)


def completion_logprobs(
    tokenizer: Tokenizer, tokens: Sequence[TokenEvent], offsets: Sequence[int]
) -> CompletionLogprobs:
    """Of a text completion's choice."""
    text = tokenizer.token_text
    known = [_known(token) for token in tokens]
    return CompletionLogprobs(
        tokens=[text(token.token_id) for token in tokens],
        token_logprobs=[max(each.logprob, _LEAST) for each in known],
        top_logprobs=[
            {text(other): max(logprob, _LEAST) for other, logprob in each.top} for each in known
        ],
        text_offset=list(offsets),
    )


def _entry(tokenizer: Tokenizer, token_id: int, logprob: float) -> TopLogprob:
    return TopLogprob(
        token=tokenizer.token_text(token_id),
        logprob=max(logprob, _LEAST),
        bytes=list(tokenizer.pieces[token_id]),
    )


def _known(token: TokenEvent) -> TokenLogprobs:
    if token.logprobs is None:
        raise ValueError(f"the group gave no logprobs for token {token.position}")
    return token.logprobs
