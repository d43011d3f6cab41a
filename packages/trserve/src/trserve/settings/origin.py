"""Where the settings of a deployment came from, for errors that say where a wrong one stands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from trsched.errors import ConfigError
from trserve.settings.yaml_file import YamlFile, field_keys


@dataclass(frozen=True, slots=True)
class Origin:
    """A file and what stood in for parts of it.

    file: the configuration; None for a preset, in which users have nothing to correct.
    elsewhere: keys of the settings that flags, variables or `--set` gave.
    """

    file: YamlFile | None
    elsewhere: Sequence[Sequence[str | int]] = ()

    def located(self, error: ConfigError) -> ConfigError:
        """With file, line and column, if the setting at fault is in the file."""
        keys = field_keys(error.field)
        overridden = any(
            all(ours == theirs for ours, theirs in zip(keys, given, strict=False))
            for given in self.elsewhere
        )
        place = None if self.file is None or overridden else self.file.place(error.field)
        return error if place is None else ConfigError(f"{place}: {error.field}", error.message)

    @contextmanager
    def locating(self) -> Iterator[None]:
        """Errors of the block are located."""
        try:
            yield
        except ConfigError as error:
            located = self.located(error)
            if located is error:
                raise
            raise located from error
