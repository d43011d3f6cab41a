"""Whose key it is: the server's one key, a key of the keys file, or an administrator's."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from trserve.gateway.access.keys_file import KeyEntry, key_digest, read_keys
from trserve.gateway.access.rate_limit import KeyLimits, RateLimiter

if TYPE_CHECKING:
    from trserve.settings.server_settings import GatewaySettings


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose key it is.

    name: of the key's line in the file.
    models: that may be asked for; None: all.
    admin: the key opens `/admin`, too.
    limiter: the live account.
    """

    name: str
    models: frozenset[str] | None
    admin: bool
    limiter: RateLimiter

    def may_use(self, model: str) -> bool:
        """Whether the key is good for this model."""
        return self.models is None or model in self.models


class KeysOfFile:
    """The callers of a keys file, with the live accounts of what they use.

    They are looked up by digest, in a dictionary. Its timing may tell how a guess's digest compares
    with a stored one, which is of no use: nobody can make a key whose digest begins as wanted
    other than by trying, and knowing a digest does not give the key.
    """

    def __init__(self, path: Path) -> None:
        """Raises ConfigError naming the file, the line and the field."""
        self._path = path
        self._by_digest: dict[bytes, Caller] = {}
        self._entries: list[KeyEntry] = []
        self.reload()

    def find(self, key: bytes) -> Caller | None:
        """Whose key this is; None: nobody's."""
        return self._by_digest.get(key_digest(key))

    @property
    def has_admin(self) -> bool:
        """Some key is an administrator's."""
        return any(caller.admin for caller in self._by_digest.values())

    def reload(self) -> bool:
        """Read the file again; names that are still there keep their accounts, even with a new key.

        Returns whether anything has changed. Raises ConfigError, as at the start; then all stays
        as it was.
        """
        entries = read_keys(self._path)
        accounts = {caller.name: caller.limiter for caller in self._by_digest.values()}
        callers = {}
        for entry in entries:
            limits = KeyLimits(
                entry.requests_per_minute, entry.tokens_per_minute, entry.concurrency
            )
            limiter = accounts.get(entry.name) or RateLimiter(limits)
            limiter.change(limits)
            models = None if entry.models is None else frozenset(entry.models)
            callers[entry.digest] = Caller(entry.name, models, entry.admin, limiter)
        changed = entries != self._entries
        self._entries, self._by_digest = entries, callers
        return changed


class ClientKeys:
    """The server's one key, the keys file, or neither: then everybody may come in."""

    def __init__(self, key: str | None, admin_key: str | None, file: KeysOfFile | None) -> None:
        self._single = None if key is None else key.encode()
        self._file = file
        self._anybody = Caller("api_key", None, False, RateLimiter(KeyLimits()))
        self.admins = AdminKeys(admin_key, file)

    @classmethod
    def of(cls, server: GatewaySettings) -> Self:
        """As configured. Raises ConfigError: the keys file is wrong."""
        key, admin = server.api_key, server.admin_key
        return cls(
            None if key is None else key.get_secret_value(),
            None if admin is None else admin.get_secret_value(),
            None if server.keys_file is None else KeysOfFile(server.keys_file),
        )

    @property
    def wanted(self) -> bool:
        """Clients must have a key."""
        return self._single is not None or self._file is not None

    def find(self, key: bytes) -> Caller | None:
        """Whose key this is; None: nobody's."""
        if self._single is not None and hmac.compare_digest(key, self._single):
            return self._anybody
        return None if self._file is None else self._file.find(key)

    def reload(self) -> bool:
        """Read the file again, if there is one; whether it has changed.

        Raises ConfigError, and then nothing has.
        """
        return self._file is not None and self._file.reload()


class AdminKeys:
    """Those of the administrators: the server's admin key, and keys of the file that say so."""

    def __init__(self, key: str | None, file: KeysOfFile | None) -> None:
        self._key = None if key is None else key.encode()
        self._file = file

    def __bool__(self) -> bool:
        return self._key is not None or (self._file is not None and self._file.has_admin)

    def find(self, key: bytes) -> object | None:
        """None: no administrator's."""
        if self._key is not None and hmac.compare_digest(key, self._key):
            return "admin"
        caller = None if self._file is None else self._file.find(key)
        return caller if caller is not None and caller.admin else None
