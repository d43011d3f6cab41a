"""Where a file or folder is: a path, or `package://PACKAGE/NAME` inside an installed package."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

_SCHEME = "package://"


def locate(path: str) -> Path:
    """The existing file or folder that `path` names. The package is found, not imported.

    Raises FileNotFoundError saying what is missing, ValueError for a malformed `package://` path.
    """
    if not path.startswith(_SCHEME):
        try:
            found = Path(path).expanduser()
        except RuntimeError as error:  # `~name` of nobody
            raise FileNotFoundError(f"no such file: {path}") from error
        if not found.exists():
            raise FileNotFoundError(f"no such file: {path}")
        return found
    package, _, name = path.removeprefix(_SCHEME).partition("/")
    if not package.isidentifier() or not name:
        raise ValueError(f"expected package://PACKAGE/FILE, not {path!r}")
    try:
        spec = find_spec(package)
    except ValueError:  # a module made at run time
        spec = None
    if spec is None:
        raise FileNotFoundError(
            f"package {package!r} is not installed: pip install {package.replace('_', '-')}"
        )
    for folder in spec.submodule_search_locations or ():
        found = Path(folder) / name
        if found.exists():
            return found
    raise FileNotFoundError(f"package {package!r} has no file {name!r}")
