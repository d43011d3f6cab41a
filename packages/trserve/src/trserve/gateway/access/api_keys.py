"""Who asks: callers by their API keys, with the live accounts of what they use."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from trserve.gateway.access.keys_file import KeyEntry, key_digest, read_keys
from trserve.gateway.access.rate_limit import Limits, RateLimiter


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose key it is. models: that may be asked for; None: all. limiter: the live account."""

    name: str
    models: frozenset[str] | None
    admin: bool
    limiter: RateLimiter

    def may_use(self, model: str) -> bool:
        """Whether the key is good for this model."""
        return self.models is None or model in self.models


class ApiKeys:
    """The callers of a keys file.

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
            limits = Limits(entry.requests_per_minute, entry.tokens_per_minute, entry.concurrency)
            limiter = accounts.get(entry.name) or RateLimiter(limits)
            limiter.change(limits)
            models = None if entry.models is None else frozenset(entry.models)
            callers[entry.digest] = Caller(entry.name, models, entry.admin, limiter)
        changed = entries != self._entries
        self._entries, self._by_digest = entries, callers
        return changed
