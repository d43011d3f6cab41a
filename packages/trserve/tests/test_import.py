"""What `import trserve` brings along."""

from __future__ import annotations

import subprocess
import sys


def test_importing_the_package_loads_nothing() -> None:
    heavy = "fastapi, pydantic, uvicorn, jinja2, trsched, structlog"
    code = f"import sys, trserve; print([m for m in '{heavy}'.split(', ') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
