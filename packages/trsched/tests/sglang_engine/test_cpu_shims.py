"""Stand-ins for what SGLang imports and a machine without CUDA lacks."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest
import torch

from sglang_cpu_shims.murmur_hash import murmur_hash32
from tests.support.sglang.murmur3 import murmur3

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="CUDA: nothing is put in")


def test_a_missing_kernel_raises_when_it_is_called() -> None:
    from sgl_kernel import rmsnorm

    with pytest.raises(NotImplementedError, match=r"sgl_kernel\.rmsnorm"):
        rmsnorm(torch.zeros(2))


def test_a_triton_kernel_raises_when_it_is_launched() -> None:
    from sglang.kernels.ops.sampling.murmur_hash import murmur_hash32_kernel

    with pytest.raises(NotImplementedError, match="murmur_hash32_kernel"):
        murmur_hash32_kernel[(1,)](1, 2, 3)


def test_seeded_noise_is_the_hash_that_gpus_compute() -> None:
    draw = random.Random(0)
    seeds = [draw.randrange(1 << 64) for _ in range(20)] + [0, (1 << 64) - 1]
    positions = [draw.randrange(1 << 20) for _ in seeds]
    columns = [0, 1, 2, 511, 151_935]
    found = murmur_hash32(
        torch.tensor(seeds, dtype=torch.uint64), torch.tensor(positions), torch.tensor(columns)
    )
    assert found.tolist() == [
        [murmur3((seed & 0xFFFFFFFF, seed >> 32, position, column)) for column in columns]
        for seed, position in zip(seeds, positions, strict=True)
    ]


def test_a_real_module_is_left_alone(tmp_path) -> None:
    for name in ("triton", "sgl_kernel"):
        (tmp_path / f"{name}.py").write_text("real = True\n")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import sglang_cpu_shims; sglang_cpu_shims.install()\n"
        "import triton, sgl_kernel; assert triton.real and sgl_kernel.real"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
