"""Where a model's file is: a path, or `package://PACKAGE/FILE` inside an installed package."""

from __future__ import annotations

from pathlib import Path

from trrouters.package_path import locate
from trsched.errors import ConfigError


def resolve_model_path(path: str, field: str) -> Path:
    """The file's path. The package is found, not imported. Raises ConfigError naming `field`."""
    try:
        file = locate(path)
    except (FileNotFoundError, ValueError) as error:
        raise ConfigError(field, str(error)) from error
    if not file.is_file():
        raise ConfigError(field, f"no such file: {path}")
    return file
