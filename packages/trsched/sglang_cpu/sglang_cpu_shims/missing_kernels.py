"""An sgl_kernel to import from: its functions raise when they are called, but for one."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from sglang_cpu_shims.murmur_hash import murmur_hash32


def install() -> None:
    """Answer `import sgl_kernel`, and register the hash that SGLang's CPU sampler calls."""
    import torch

    sys.modules["sgl_kernel"] = _Kernels("sgl_kernel")
    operators: Any = torch.library
    library = operators.Library("sgl_kernel", "FRAGMENT")
    library.define("murmur_hash32_cpu(Tensor seed, Tensor positions, Tensor columns) -> Tensor")
    library.impl("murmur_hash32_cpu", murmur_hash32, "CPU")
    _libraries.append(library)


class _Kernels(ModuleType):
    __version__ = "0.0.0"
    __path__: list[str] = []  # noqa: RUF012 - what makes a module a package

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def missing(*_: Any, **__: Any) -> None:
            raise NotImplementedError(f"sgl_kernel.{name} is not there without CUDA")

        setattr(self, name, missing)
        return missing


_libraries: list[Any] = []  # operators live as long as their library
