"""For all tests of the tree."""

import os

# Before anything loads libgomp, as `trsched.models.llamacpp_library` does and says why.
os.environ.setdefault("OMP_WAIT_POLICY", "active")
os.environ.setdefault("GOMP_SPINCOUNT", "1000")
