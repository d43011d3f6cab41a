from __future__ import annotations

from hypothesis import HealthCheck, settings

# Cores are shared: no property fails for being slow. Each run tries the same examples.
settings.register_profile(
    "tests", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("tests")
