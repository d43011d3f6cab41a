"""What single units cost: the small calls that run for every token, hand-off or request.

- ring_push_drain_us_N: a record of 64 bytes through a ring on the heap, among N.
- assign_us_N: `trcore.assign` a request, in batches of eight on N instances.
- event_written_us, event_read_us: a server-sent event of one token, in the server and in
  `trserve bench`.
- streamed_chunk_us: all of a chunk in the server, from the group's delivery to ASGI's `send`.
- detokenizer_step_us: a token's bytes to text.

Each is the median of pytest-benchmark, in microseconds. The units are in `benchmarks/unit_costs`.

Run ``python -m benchmarks.units`` or with ``--smoke``. Ends with one JSON object.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.report.machine import machine

ROOT = Path(__file__).resolve().parents[1]
UNITS = ROOT / "benchmarks" / "unit_costs"


def run_units(max_time_s: float, min_rounds: int) -> list[dict[str, Any]]:
    """pytest-benchmark's account of each unit. Raises SystemExit, with what pytest said."""
    with TemporaryDirectory() as folder:
        file = Path(folder, "units.json")
        command = [sys.executable, "-m", "pytest", str(UNITS), "-q", "-p", "no:cacheprovider"]
        command += ["--benchmark-only", f"--benchmark-json={file}"]
        command += [f"--benchmark-max-time={max_time_s}", f"--benchmark-min-rounds={min_rounds}"]
        run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if run.returncode:
            raise SystemExit(f"pytest's exit status is {run.returncode}\n{run.stdout}{run.stderr}")
        found: list[dict[str, Any]] = json.loads(file.read_text())["benchmarks"]
        return found


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--smoke", action="store_true", help="a tenth of a second each")
    args = parser.parse_args()
    facts = machine()
    print(json.dumps({"machine": facts}))
    print(f"{'µs a unit':28}{'median':>10}{'least':>10}{'rounds':>10}")
    figures = {}
    for unit in run_units(0.1, 5) if args.smoke else run_units(2.0, 20):
        named, stats = unit["extra_info"], unit["stats"]
        median, least = (1e6 * stats[name] / named["units"] for name in ("median", "min"))
        print(f"{named['figure']:28}{median:10.3f}{least:10.3f}{stats['rounds']:10}")
        figures[named["figure"]] = round(median, 3)
    print(json.dumps({"benchmark": "units", "cpu": facts.get("CPU", ""), **figures}))


if __name__ == "__main__":
    main()
