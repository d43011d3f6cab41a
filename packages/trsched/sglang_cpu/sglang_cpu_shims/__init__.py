"""SGLang on a machine without CUDA, for this tree's tests: in no wheel.

`install` puts stand-ins in the place of what SGLang imports and never calls there.
"""

from sglang_cpu_shims.install_shims import install

__all__ = ["install"]
