"""Which instances stand for the same server: what one of them has to do, all of them wait for."""

from __future__ import annotations


class Servers:
    """The members of each of `capacity` instances' servers; one is alone until it joins another.

    shared: the members of each server that has more than one.
    """

    def __init__(self, capacity: int) -> None:
        self._members = [[at] for at in range(capacity)]
        self.shared: list[list[int]] = []

    def members(self, instance: int) -> list[int]:
        """All that share its server, itself among them; only to be read."""
        return self._members[instance]

    def join(self, instance: int, other: int) -> None:
        """One that is alone stands for the other's server from now on."""
        self._members[instance] = self._members[other]
        self._members[other].append(instance)
        self._list_shared()

    def leave(self, instance: int) -> None:
        """It is alone again."""
        self._members[instance].remove(instance)
        self._members[instance] = [instance]
        self._list_shared()

    def _list_shared(self) -> None:
        self.shared = [
            members
            for instance, members in enumerate(self._members)
            if len(members) > 1 and members[0] == instance
        ]
