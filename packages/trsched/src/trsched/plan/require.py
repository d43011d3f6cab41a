"""Whether what a configuration needs is installed; nothing is imported to find out."""

from __future__ import annotations

from importlib.util import find_spec

from trrouters import MissingTorchError, Need, router_class
from trsched.errors import NotInstalledError


def require_llamacpp(field: str) -> None:
    """Raises NotInstalledError naming `field` where llama-cpp-python is not installed."""
    if find_spec("llama_cpp") is None:
        raise NotInstalledError(field, "llama.cpp", "llamacpp")


def require_torch(router: str, needs: frozenset[Need]) -> None:
    """Raises NotInstalledError where torch is not installed and a router reads engines' outputs.

    These are tensors; a router that reads none (`fixed`, `me`, `bernoulli`) does without.
    """
    if needs and find_spec("torch") is None:
        raise no_torch(router)


def require_router(router: str) -> None:
    """Raises NotInstalledError where a router that is known by this name would need torch."""
    try:
        cls = router_class(router)
    except MissingTorchError as error:
        raise no_torch(router) from error
    require_torch(router, cls.needs)


def no_torch(router: str) -> NotInstalledError:
    """The error for a router that cannot do without."""
    return NotInstalledError("router.name", f"torch, for {router!r},", "routers")
