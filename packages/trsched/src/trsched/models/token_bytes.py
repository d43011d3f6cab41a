"""From a token's text in `tokenizer.json` to the bytes that it stands for."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from trsched.errors import ConfigError

_BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")


class _Tokenizer(msgspec.Struct):
    decoder: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class TokenBytes:
    """The rule of one tokenizer, found in its decoder."""

    rule: Callable[[str], bytes]

    def __call__(self, text: str) -> bytes:
        """The bytes of a token that is not an added one."""
        return self.rule(text)

    @classmethod
    def of(cls, file: Path, field: str) -> TokenBytes:
        """Of a `tokenizer.json`. Raises ConfigError naming `field` if it is not made of bytes.

        Known are byte-level BPE (GPT-2, Llama 3, Qwen) and SentencePiece with byte tokens
        (Llama 2, Mistral, Gemma). Others could not be streamed without changing the text.
        """
        decoder = msgspec.json.decode(file.read_bytes(), type=_Tokenizer).decoder or {}
        kinds = {part.get("type") for part in [decoder, *decoder.get("decoders", [])]}
        if "ByteLevel" in kinds:
            return cls(_byte_level)
        if "ByteFallback" in kinds:
            return cls(_sentence_piece)
        raise ConfigError(
            field,
            f"a tokenizer with the decoder {decoder.get('type')!r}, "
            "which is neither byte-level BPE nor SentencePiece with byte tokens",
        )


def _byte_level(text: str) -> bytes:
    try:
        return bytes(_BYTE_OF[character] for character in text)
    except KeyError:  # outside the alphabet: no BPE token, just text
        return text.encode()


def _sentence_piece(text: str) -> bytes:
    byte = _BYTE_TOKEN.fullmatch(text)
    return bytes([int(byte[1], 16)]) if byte else text.replace("\u2581", " ").encode()


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's: printable bytes are themselves, the others take code points from 256 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    alphabet = {chr(byte): byte for byte in printable}
    return alphabet | {chr(256 + i): byte for i, byte in enumerate(others)}


_BYTE_OF = _byte_alphabet()
