"""For all tests of the tree."""

import os

# Before anything loads libgomp, as `trsched.engines.llamacpp_library` does and says why.
os.environ.setdefault("GOMP_SPINCOUNT", "300")
