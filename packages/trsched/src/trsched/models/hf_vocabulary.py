"""The vocabulary of a Hugging Face checkpoint, read from its folder without weights."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from trsched.errors import ConfigError, NotInstalledError
from trsched.models.hf_config import HfConfig
from trsched.models.token_bytes import TokenBytes
from trsched.models.token_texts import padding_text, texts_fingerprint


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
        self._file = folder / "tokenizer.json"
        self._field = field
        self._with_control = _load(self._file, field)
        texts = {i: t for t, i in self._with_control.get_vocab().items() if i < self.size}
        self.tokens = max(texts, default=-1) + 1
        self._pieces = self._pieces_of(texts)
        self.fingerprint = texts_fingerprint(
            texts[i].encode() if i in texts else padding_text(i) for i in range(self.tokens)
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

    @cached_property
    def _plain(self) -> Any:
        """For users' texts: the names of control tokens are just text. Only one model's is used."""
        tokenizer = _load(self._file, self._field)
        tokenizer.encode_special_tokens = True
        return tokenizer

    def _pieces_of(self, texts: Mapping[int, str]) -> list[bytes]:
        token_bytes = TokenBytes.of(self._file, self._field)
        added = self._with_control.get_added_tokens_decoder()
        pieces = [b""] * self.size
        for i, text in texts.items():
            if i not in added:
                pieces[i] = token_bytes(text)
            elif not added[i].special:
                pieces[i] = text.encode()
        return pieces

    def _stop_ids(self, ends: Any) -> frozenset[int]:
        listed = ends if isinstance(ends, list) else [ends]
        listed = [*listed, self._with_control.token_to_id(self.eos_token)]
        return frozenset(i for i in listed if isinstance(i, int) and 0 <= i < self.size)


def _load(path: Path, field: str) -> Any:
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise NotInstalledError(field, str(error.name), "huggingface") from error
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
