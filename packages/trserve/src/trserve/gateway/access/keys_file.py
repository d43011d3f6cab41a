"""The file of API keys, of which it holds hashes only, and new keys for it.

It is a YAML list; all but the first two fields may be left out:

    - {name: alice, sha256: "9f86…", requests_per_minute: 60, tokens_per_minute: 100000,
       concurrency: 8, models: [small, large], admin: false}

A plain SHA-256 is enough, unlike for passwords: a key is 32 random bytes, and no amount of
guessing finds one.
"""

from __future__ import annotations

import hashlib
import secrets
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from trsched.errors import ConfigError
from trserve.openai.schemas.strict import StrictModel
from trserve.settings.yaml_file import YamlFile, read_yaml


class KeyEntry(StrictModel):
    """A key's line.

    name: of who has the key.
    sha256: of the key, in hexadecimal digits.
    requests_per_minute: None: any number.
    tokens_per_minute: of prompts and answers; None: any number.
    concurrency: most requests at the same time; None: any number.
    models: that may be asked for; None: all.
    admin: the key opens `/admin`, too.
    """

    name: Annotated[str, Field(pattern=r"^[a-zA-Z0-9_.@-]{1,64}$")]
    sha256: Annotated[str, Field(pattern="^[0-9a-fA-F]{64}$")]
    requests_per_minute: Annotated[float, Field(gt=0)] | None = None
    tokens_per_minute: Annotated[float, Field(gt=0)] | None = None
    concurrency: Annotated[int, Field(gt=0)] | None = None
    models: Annotated[tuple[str, ...], Field(strict=False)] | None = None
    admin: bool = False

    @property
    def digest(self) -> bytes:
        """What `key_digest` makes of the key."""
        return bytes.fromhex(self.sha256)


def key_digest(key: bytes) -> bytes:
    """32 bytes that say which key this is, and from which it cannot be told."""
    return hashlib.sha256(key).digest()


def new_key(name: str) -> tuple[str, str]:
    """A new key, which is kept nowhere, and its line for the file.

    Raises ConfigError naming `name`.
    """
    key = f"tr-{secrets.token_urlsafe(32)}"
    try:
        entry = KeyEntry(name=name, sha256=key_digest(key.encode()).hex())
    except ValidationError:
        raise ConfigError(
            "name", f"expected 1 to 64 of a-z A-Z 0-9 . @ _ -, not {name!r}"
        ) from None
    return key, f'- {{name: "{entry.name}", sha256: "{entry.sha256}"}}'


def read_keys(path: Path) -> list[KeyEntry]:
    """The file's keys. Raises ConfigError naming the file, line, column and field."""
    file = read_yaml(path, "keys")
    if not isinstance(file.data, list):
        raise ConfigError(file.source, "expected a list of keys (`- {name: …, sha256: …}`)")
    entries = []
    taken: set[tuple[str, str]] = set()
    for at, data in enumerate(file.data):
        entry = _entry(file, at, data)
        for own in (("name", entry.name), ("sha256", entry.sha256.lower())):
            if own in taken:
                raise _error(file, at, own[0], "is there already")
            taken.add(own)
        entries.append(entry)
    return entries


def _entry(file: YamlFile, at: int, data: object) -> KeyEntry:
    if not isinstance(data, dict):
        raise ConfigError(file.place(f"[{at}]") or file.source, "expected `{name: …, sha256: …}`")
    try:
        return KeyEntry.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        message = first["msg"].removeprefix("Input ")
        raise _error(file, at, str(first["loc"][0]), message) from error


def _error(file: YamlFile, at: int, field: str, message: str) -> ConfigError:
    return ConfigError(f"{file.place(f'[{at}].{field}')}: {field}", message)
