"""A triton to import from: kernels become objects that raise when they are launched."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def install() -> None:
    """Answer `import triton` and everything below it."""
    sys.meta_path.append(_Finder())


class MissingKernel:
    """What `@triton.jit` makes of a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.fn = function
        self.__name__ = function.__name__

    def __getitem__(self, grid: object) -> MissingKernel:
        return self

    def __call__(self, *_: Any, **__: Any) -> None:
        raise NotImplementedError(f"triton kernel {self.__name__} cannot run without CUDA")


class _Type:
    """Base class, annotation or marker: anything that is only named."""

    def __init__(self, *_: Any, **__: Any) -> None: ...


class _Module(ModuleType):
    __version__ = "0.0.0"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or self.__name__ == "triton.knobs":  # hooks: nothing calls them
            raise AttributeError(name)
        value = _DEFINED.get(name)
        if value is None and (name[:1].isupper() or name in _TYPES):
            value = type(name, (_Type,), {})
        if value is None:
            value = import_module(f"{self.__name__}.{name}")
        setattr(self, name, value)
        return value

    def __call__(self, *_: Any, **__: Any) -> None:
        raise NotImplementedError(f"{self.__name__} cannot run without CUDA")


class _Loader(Loader):
    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: ModuleType) -> None: ...


class _Finder(MetaPathFinder):
    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        if name.partition(".")[0] != "triton":
            return None
        return ModuleSpec(name, _Loader(), is_package=True)


def _jit(function: Callable[..., Any] | None = None, **_: Any) -> Any:
    return MissingKernel(function) if function is not None else _decorate


def _decorator(*_: Any, **__: Any) -> Any:
    return _decorate


def _decorate(function: Any) -> MissingKernel:
    return function if isinstance(function, MissingKernel) else MissingKernel(function)


def _cdiv(a: int, b: int) -> int:
    return -(-a // b)


def _next_power_of_2(n: int) -> int:
    return 1 << (max(n, 1) - 1).bit_length()


_DEFINED: dict[str, Any] = {
    "jit": _jit,
    "autotune": _decorator,
    "heuristics": _decorator,
    "cdiv": _cdiv,
    "next_power_of_2": _next_power_of_2,
}
_TYPES = frozenset({"constexpr", "dtype", "pointer_type", "tensor"})
