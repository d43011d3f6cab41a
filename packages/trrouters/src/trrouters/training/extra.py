"""The error raised where a library of the ``training`` extra is missing."""

from __future__ import annotations

INSTALL_HINT = "pip install 'trrouters[training]'"


class TrainingExtraError(ImportError):
    """A library that training a router needs is not installed.

    Args:
        library: the import name that failed, for example ``"torch"``.
        hint: the command that installs it.
    """

    def __init__(self, library: str, hint: str = INSTALL_HINT) -> None:
        super().__init__(
            f"trrouters.training needs {library!r}, which is not installed: {hint}",
            name=library,
        )
        self.library = library
