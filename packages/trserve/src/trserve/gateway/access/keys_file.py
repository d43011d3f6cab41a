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
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import Field, ValidationError

from trsched.errors import ConfigError
from trserve.openai.schemas.strict import StrictModel


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
    """The file's keys. Raises ConfigError naming the file, the line and the field."""
    source = f"keys {path}"
    try:
        return list(_entries(path.read_text(encoding="utf-8"), source))
    except OSError as error:
        raise ConfigError(source, error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise ConfigError(source, f"not UTF-8 text ({error.reason})") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{source} line {mark.line + 1}" if mark else source
        raise ConfigError(where, error.problem or str(error)) from error
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(source, " ".join(str(error).split())) from error


def _entries(text: str, source: str) -> Iterator[KeyEntry]:
    """Made from the YAML's nodes, which know the lines that they stand on."""
    loader = yaml.SafeLoader(text)
    root = loader.get_single_node()
    if not isinstance(root, yaml.SequenceNode):
        raise ConfigError(source, "expected a list of keys (`- {name: …, sha256: …}`)")
    seen: set[tuple[str, str]] = set()
    for node in root.value:
        line = node.start_mark.line + 1
        if not isinstance(node, yaml.MappingNode):
            raise ConfigError(f"{source} line {line}", "expected `{name: …, sha256: …}`")
        lines = _field_lines(node, source)
        try:
            entry = KeyEntry.model_validate(loader.construct_document(node))
        except ValidationError as error:
            first = error.errors()[0]
            field = str(first["loc"][0]) if first["loc"] else ""
            where = f"{source} line {lines.get(field, line)}: {field}"
            raise ConfigError(where, str(first["msg"]).removeprefix("Input ")) from error
        for field, value in (("name", entry.name), ("sha256", entry.sha256.lower())):
            if (field, value) in seen:
                where = f"{source} line {lines.get(field, line)}: {field}"
                raise ConfigError(where, "is there already")
            seen.add((field, value))
        yield entry


def _field_lines(node: yaml.MappingNode, source: str) -> dict[str, int]:
    lines: dict[str, int] = {}
    for key, _ in node.value:
        name, line = str(key.value), key.start_mark.line + 1
        if name in lines:
            raise ConfigError(f"{source} line {line}: {name}", "is given twice")
        lines[name] = line
    return lines
