"""Run benchmarks one after another, keep the last line of each, and write the report.

Without a name every benchmark runs, at its smoke size unless `--full`; what comes after `--` goes
to each. One that fails is reported and the others still run; the exit status is then 1. The report
is `benchmarks/results/REPORT.md`, of these runs and of the latest earlier ones of other benchmarks.

``make bench`` is ``python -m benchmarks._suite``.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.report.benchmark_run import BenchmarkRun, save
from benchmarks.report.records import RESULTS
from benchmarks.report.report import write_report

ROOT = Path(__file__).resolve().parents[1]
SMOKE_LIMIT_S = 300.0
FULL_LIMIT_S = 6 * 3600.0
GRACE_S = 20.0


def names(root: Path) -> list[str]:
    """Every benchmark of a tree: modules whose names begin with a letter."""
    return sorted(path.stem for path in (root / "benchmarks").glob("[a-z]*.py"))


def command(name: str, full: bool, extra: Sequence[str], results: Path) -> list[str]:
    """How one benchmark is run."""
    flags = [] if full else ["--smoke"]
    if name == "quality" and "--plot" not in extra:
        flags += ["--plot", str(results / "quality.png")]
    return [sys.executable, "-m", f"benchmarks.{name}", *flags, *extra]


def run_one(name: str, arguments: list[str], size: str, root: Path, limit_s: float) -> BenchmarkRun:
    """Run it, showing what it prints; a failure is part of the result."""
    begun, date = time.monotonic(), datetime.now(UTC)
    last = ""
    late = threading.Event()
    with subprocess.Popen(
        arguments,
        cwd=root,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:

        def expire() -> None:
            late.set()
            stop(process)

        timer = threading.Timer(limit_s, expire)
        timer.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                print(line, end="", flush=True)
                last = line if line.strip() else last
            status = process.wait()
        finally:
            timer.cancel()
            if process.returncode is None:
                stop(process)
    found = parsed(last)
    failure = ""
    if late.is_set():
        failure = f"still running after {limit_s:,.0f} s, stopped"
    elif status:
        failure = f"exit status {status}"
    elif found is None:
        failure = "its last line is no JSON object"
    shown = ["python", *(word.replace(f"{root}{os.sep}", "") for word in arguments[1:])]
    return BenchmarkRun(
        name=name,
        command=" ".join(shown),
        size=size,
        date=f"{date:%Y-%m-%d %H:%M:%S}",
        seconds=round(time.monotonic() - begun, 1),
        failure=failure,
        last_line={} if failure else found or {},
        about=about(root / "benchmarks" / f"{name}.py"),
    )


def about(module: Path) -> str:
    """A benchmark's own words: its docstring."""
    return ast.get_docstring(ast.parse(module.read_text("utf-8"))) or ""


def stop(process: subprocess.Popen[str]) -> None:
    """End it and whatever it started, servers too: asked first, killed in the end."""
    for how in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        patience = time.monotonic() + GRACE_S
        try:
            os.killpg(process.pid, how)
            while time.monotonic() < patience:
                process.poll()
                os.killpg(process.pid, 0)  # is there still one of them?
                time.sleep(0.1)
        except ProcessLookupError:
            return


def parsed(line: str) -> dict[str, Any] | None:
    """The JSON object of a line, if that is what it is."""
    try:
        found = json.loads(line)
    except json.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None


def run_all(
    wanted: Sequence[str],
    extra: Sequence[str] = (),
    *,
    full: bool,
    root: Path = ROOT,
    results: Path = RESULTS,
    limit_s: float | None = None,
) -> list[BenchmarkRun]:
    """Run the wanted ones in turn, keep each result, and write the report."""
    size = "full" if full and "--smoke" not in extra else "smoke"
    limit_s = limit_s or (FULL_LIMIT_S if size == "full" else SMOKE_LIMIT_S)
    runs = []
    for number, name in enumerate(wanted, start=1):
        print(f"· benchmark {name} ({number} of {len(wanted)}, {size})", flush=True)
        run = run_one(name, command(name, full, extra, results), size, root, limit_s)
        save(run, results)
        runs.append(run)
        ended = f"FAILED: {run.failure}" if run.failure else "done"
        print(f"· benchmark {name} {ended} after {run.seconds:.0f} s", flush=True)
    report = write_report(results)
    print(f"· report: {report.relative_to(root) if report.is_relative_to(root) else report}")
    return runs


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    at = given.index("--") if "--" in given else len(given)
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help="which; without any, all of them")
    parser.add_argument("--full", action="store_true", help="their full sizes, hours for all")
    args = parser.parse_args(given[:at])
    known = names(ROOT)
    if unknown := sorted(set(args.names) - set(known)):
        print(f"bench: there is no benchmark {', '.join(unknown)}; there are {', '.join(known)}")
        return 1
    runs = run_all(args.names or known, given[at + 1 :], full=args.full)
    failed = [run.name for run in runs if run.failure]
    if failed:
        print(f"bench: FAILED: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
