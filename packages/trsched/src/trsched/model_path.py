"""Where a model's file is: a path, or `package://PACKAGE/FILE` inside an installed package."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from trsched.errors import ConfigError

_SCHEME = "package://"


def resolve_model_path(path: str, field: str) -> Path:
    """The file's path. The package is found, not imported. Raises ConfigError naming `field`."""
    if not path.startswith(_SCHEME):
        file = Path(path).expanduser()
        if not file.is_file():
            raise ConfigError(field, f"no such file: {path}")
        return file
    package, _, name = path.removeprefix(_SCHEME).partition("/")
    if not package.isidentifier() or not name:
        raise ConfigError(field, f"expected package://PACKAGE/FILE, not {path!r}")
    try:
        spec = find_spec(package)
    except ValueError:  # a module made at run time
        spec = None
    if spec is None:
        raise ConfigError(
            field, f"package {package!r} is not installed: pip install {package.replace('_', '-')}"
        )
    for folder in spec.submodule_search_locations or ():
        file = Path(folder) / name
        if file.is_file():
            return file
    raise ConfigError(field, f"package {package!r} has no file {name!r}")
