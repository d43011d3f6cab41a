"""Routers by name, from the entry points that installed packages declare.

A third party's package registers its router with

    [project.entry-points."trrouters.routers"]
    my_router = "my_package.my_router:MyRouter"
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any, get_type_hints

import msgspec

from trrouters.base_router import BaseRouter, RouterContext
from trrouters.errors import MissingTorchError, RouterConfigError, UnknownRouterError

ENTRY_POINT_GROUP = "trrouters.routers"
_TORCH_EXTRA = ("torch", "safetensors")


def router_names() -> list[str]:
    """Names of all installed routers, sorted."""
    return sorted({point.name for point in entry_points(group=ENTRY_POINT_GROUP)})


def router_class(name: str) -> type[BaseRouter]:
    """The class registered as `name`.

    Raises UnknownRouterError if there is none, MissingTorchError if it needs what the extra `torch`
    brings, RouterConfigError if its package cannot be imported for another reason.
    """
    points = entry_points(group=ENTRY_POINT_GROUP, name=name)
    if not points:
        known = ", ".join(router_names()) or "none"
        raise UnknownRouterError(f"no router is named {name!r} (installed: {known})")
    try:
        cls = next(iter(points)).load()
    except Exception as error:
        if isinstance(error, ImportError) and error.name in _TORCH_EXTRA:
            raise MissingTorchError(f"router {name!r}", error.name) from error
        raise RouterConfigError(f"router {name!r} cannot be imported: {error}") from error
    if not (isinstance(cls, type) and issubclass(cls, BaseRouter)):
        raise RouterConfigError(f"router {name!r} is not a subclass of BaseRouter: {cls!r}")
    return cls


def _check_types(name: str, cls: type[BaseRouter], settings: Mapping[str, Any]) -> None:
    """Compare settings with the annotations of `cls.__init__`, as far as these can be evaluated."""
    try:
        types = get_type_hints(cls.__init__)
    except NameError:  # imported for type checkers only
        return
    for setting, value in settings.items():
        try:
            msgspec.convert(value, types.get(setting, Any))
        except msgspec.ValidationError as error:
            raise RouterConfigError(f"router {name!r}: {setting}: {error}") from error


def create_router(name: str, context: RouterContext, settings: Mapping[str, Any]) -> BaseRouter:
    """A router for one subserver.

    Raises UnknownRouterError, or RouterConfigError when the group's size or a setting cannot be.
    """
    cls = router_class(name)
    least, most = cls.models
    if context.n_models < least or (most is not None and context.n_models > most):
        wanted = (
            str(least) if least == most else f"{least} to {most}" if most else f"{least} or more"
        )
        raise RouterConfigError(
            f"router {name!r} wants {wanted} models, the group has {context.n_models}"
        )
    _check_types(name, cls, settings)
    try:
        return cls(context, **settings)
    except (TypeError, ValueError) as error:
        raise RouterConfigError(f"router {name!r}: {error}") from error
