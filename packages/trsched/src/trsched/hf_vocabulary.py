"""The vocabulary of a Hugging Face checkpoint, read from its folder without weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import msgspec

from trsched.errors import ConfigError
from trsched.hf_config import HfConfig
from trsched.hf_files import missing_extra
from trsched.token_bytes import TokenBytes
from trsched.token_texts import padding_text, texts_fingerprint


class HfVocabulary:
    """`tokenizer.json` and what says where texts end and how a chat is written.

    size is that of the LM head without `extra_rows` (Co-LLM's deferral row), which is often padded:
    ids from `tokens` on are no tokens. Raises ConfigError naming `field` for a folder without a
    tokenizer, or one that cannot be used here.
    """

    def __init__(
        self, folder: Path, config: HfConfig, field: str, *, name: str, extra_rows: int = 0
    ) -> None:
        self.name = name
        self.size = config.vocab_size - extra_rows
        self.context_length = config.max_position_embeddings
        self.hidden_size = config.hidden_size
        # users' texts are cut by one that takes the names of control tokens for plain text
        self._with_control = _load(folder / "tokenizer.json", field)
        self._plain = _load(folder / "tokenizer.json", field)
        self._plain.encode_special_tokens = True
        self._added = self._with_control.get_added_tokens_decoder()
        token_bytes = TokenBytes.of(self._with_control, field)
        ids = range(self.size)
        texts = [cast("str | None", self._with_control.id_to_token(i)) for i in ids]
        self.tokens = max((i + 1 for i in ids if texts[i] is not None), default=0)
        self._pieces = [self._piece(i, text, token_bytes) for i, text in enumerate(texts)]
        self.fingerprint = texts_fingerprint(
            padding_text(i) if text is None else text.encode()
            for i, text in enumerate(texts[: self.tokens])
        )
        settings = _json(folder / "tokenizer_config.json", field)
        self.bos_token = _token(settings.get("bos_token"))
        self.eos_token = _token(settings.get("eos_token"))
        self.chat_template = _chat_template(folder, settings)
        generation = _json(folder / "generation_config.json", field)
        self.stop_ids = self._stop_ids(generation.get("eos_token_id", config.eos_token_id))

    def encode(self, text: str, *, special: bool) -> list[int]:
        """Token ids, with no beginning-of-text token added."""
        tokenizer = self._with_control if special else self._plain
        return list(tokenizer.encode(text, add_special_tokens=False).ids)

    def piece(self, token_id: int) -> bytes:
        """The token's bytes; empty for control tokens and ids that are no tokens."""
        return self._pieces[token_id]

    def _piece(self, token_id: int, text: str | None, token_bytes: TokenBytes) -> bytes:
        if text is None:
            return b""
        added = self._added.get(token_id)
        if added is not None:
            return b"" if added.special else text.encode()
        return token_bytes(text)

    def _stop_ids(self, ends: Any) -> frozenset[int]:
        listed = ends if isinstance(ends, list) else [ends]
        listed = [*listed, self._with_control.token_to_id(self.eos_token)]
        return frozenset(i for i in listed if isinstance(i, int) and 0 <= i < self.size)


def _load(path: Path, field: str) -> Any:
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise ConfigError(field, missing_extra(error)) from error
    if not path.is_file():
        raise ConfigError(field, f"no {path.name} in {path.parent}")
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library has no error of its own
        raise ConfigError(field, f"{path}: {error}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _json(path: Path, field: str) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError, msgspec.ValidationError) as error:
        raise ConfigError(field, f"{path}: {error}") from error


def _token(entry: Any) -> str:
    """A token in tokenizer_config.json: its text, or an object with it."""
    content = entry.get("content") if isinstance(entry, dict) else entry
    return content if isinstance(content, str) else ""


def _chat_template(folder: Path, settings: dict[str, Any]) -> str | None:
    file = folder / "chat_template.jinja"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    template = settings.get("chat_template")
    if isinstance(template, list):  # several by name
        named = {entry["name"]: entry["template"] for entry in template if isinstance(entry, dict)}
        template = named.get("default")
    return template if isinstance(template, str) else None
