"""Whether what a configuration needs is installed; nothing is imported to find out."""

from __future__ import annotations

from importlib.util import find_spec

from trrouters import Need
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


def no_torch(router: str) -> NotInstalledError:
    """The error for a router that cannot do without."""
    return NotInstalledError("router.name", f"torch, for {router!r},", "routers")
