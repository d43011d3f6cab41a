"""What a group's process and a subserver's process tell one another until the loops run."""

from __future__ import annotations

from multiprocessing.connection import Connection
from typing import TypeVar

import msgspec

from trsched.plan.config import GroupConfig


class Task(msgspec.Struct, frozen=True, tag="task"):
    """What the new process is: rank `rank` of model `index`.

    reports: name of the group's ring.
    block: descriptor of the memory that all subservers share.
    meeting_port: of this host, where the model's ranks find one another; 0 for a model of one rank.
    """

    config: GroupConfig
    index: int
    rank: int
    reports: str
    block: int
    meeting_port: int


class LoadProgress(msgspec.Struct, frozen=True, tag="progress"):
    """A line for people about loading."""

    line: str


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The engine is loaded.

    inbox: name of the process's ring.
    """

    inbox: str


class LoadFailed(msgspec.Struct, frozen=True, tag="failed"):
    """The process ends. field: of the configuration that is at fault, None for the engine's."""

    field: str | None
    error: str


class Run(msgspec.Struct, frozen=True, tag="run"):
    """All are ready.

    inboxes: rings of the subservers.
    followers: of this model's further ranks.
    """

    inboxes: list[str]
    followers: list[str]


class Joined(msgspec.Struct, frozen=True, tag="joined"):
    """The process holds its peers' rings: from now on it may do without any of them."""


Message = Task | LoadProgress | Ready | LoadFailed | Run | Joined

ENDED, DIED = 0, 1
"""Exit statuses of the process: after `Stop`, and on an error that the group has been told."""

_Kind = TypeVar("_Kind", bound=Message)
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Message)


class Channel:
    """Messages over a connection, in both directions.

    It ends with the process at the other end: `receive` raises EOFError then, `send` OSError.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def send(self, message: Message) -> None:
        """Raises TypeError or OverflowError for configuration that isn't plain data."""
        self.connection.send_bytes(_encoder.encode(message))

    def receive(self) -> Message:
        """The next message; blocks."""
        try:
            return _decoder.decode(self.connection.recv_bytes())
        except ConnectionResetError as error:
            raise EOFError from error

    def expect(self, kind: type[_Kind]) -> _Kind:
        """The next message, which is of that kind; blocks."""
        message = self.receive()
        assert isinstance(message, kind), message
        return message
