"""What to install, in this package's extras."""

from __future__ import annotations

from trsched.errors import NotInstalledError, TrschedError


def told(error: TrschedError) -> str:
    """The error for people: trsched's extras have the same names here."""
    if isinstance(error, NotInstalledError):
        install = f"pip install 'trserve[{error.extra}]'"
        return f"{error.field}: {error.library} is not installed: {install}"
    return str(error)
