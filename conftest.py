"""For all tests of the tree."""

import os

from hypothesis import HealthCheck, settings

# Before anything loads libgomp, as `trsched.models.llamacpp_library` does and says why.
os.environ.setdefault("OMP_WAIT_POLICY", "active")
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

# Cores are shared: no property fails for being slow. Each run tries the same examples.
settings.register_profile(
    "tests", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("tests")
