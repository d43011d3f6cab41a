from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import _suite
from benchmarks.report import benchmark_run

GOOD = """'Is all well?'
import json, sys
print("hello")
print(json.dumps({"benchmark": "it", "args": sys.argv[1:]}))
"""


def tree(folder: Path, **sources: str) -> Path:
    (folder / "benchmarks").mkdir()
    for name, source in sources.items():
        (folder / "benchmarks" / f"{name}.py").write_text(source)
    return folder


def test_benchmarks_are_the_modules_without_an_underscore(tmp_path: Path) -> None:
    assert _suite.names(tree(tmp_path, b="", a="", _c="")) == ["a", "b"]
    assert {"dtmc", "handoff", "overhead", "quality", "router_cost", "scoring"} <= set(
        _suite.names(_suite.ROOT)
    )


def test_each_last_line_is_kept_and_a_failure_stops_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    root = tree(
        tmp_path,
        a_good=GOOD,
        b_bad='print("{}")\nraise SystemExit(3)\n',
        c_silent='print("no JSON")\n',
        d_endless='import time\nprint("begun", flush=True)\ntime.sleep(600)\n',
        e_good=GOOD,
    )
    results = tmp_path / "results"

    runs = _suite.run_all(
        _suite.names(root), ["--x"], full=False, root=root, results=results, limit_s=3.0
    )

    assert {run.name: run.failure for run in runs} == {
        "a_good": "",
        "b_bad": "exit status 3",
        "c_silent": "its last line is no JSON object",
        "d_endless": "still running after 3 s, stopped",
        "e_good": "",
    }
    assert runs[0].last_line == {"benchmark": "it", "args": ["--smoke", "--x"]}
    assert runs[0].about == "Is all well?"
    assert runs[0].command == "python -m benchmarks.a_good --smoke --x"
    assert benchmark_run.load_all(results) == runs
    report = (results / "REPORT.md").read_text("utf-8")
    assert "exit status 3" in report
    shown = capfd.readouterr().out
    assert "hello" in shown
    assert "· benchmark b_bad FAILED: exit status 3" in shown


def test_full_size_has_no_smoke_flag_and_the_picture_lies_with_the_results(tmp_path: Path) -> None:
    assert _suite.command("x", True, ["--a"], tmp_path)[1:] == ["-m", "benchmarks.x", "--a"]
    plot = str(tmp_path / "quality.png")
    assert _suite.command("quality", False, [], tmp_path)[3:] == ["--smoke", "--plot", plot]
    own = ["--plot", "mine.png"]
    assert _suite.command("quality", True, own, tmp_path)[3:] == own


def test_a_failure_is_the_exit_status(monkeypatch: pytest.MonkeyPatch) -> None:
    def ended(failure: str) -> int:
        run = benchmark_run.BenchmarkRun(
            name="handoff", command="", size="smoke", date="", seconds=0.0, failure=failure
        )
        monkeypatch.setattr(_suite, "run_all", lambda *_, **__: [run])
        return _suite.main(["handoff"])

    assert ended("") == 0
    assert ended("exit status 3") == 1


def test_an_unknown_benchmark_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert _suite.main(["nonsense"]) == 1
    out = capsys.readouterr().out
    assert "there is no benchmark nonsense; there are " in out
    assert "handoff" in out


def test_arguments_after_the_dashes_go_to_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def note(wanted, extra, *, full):
        seen.append((wanted, extra, full))
        return []

    monkeypatch.setattr(_suite, "run_all", note)
    assert _suite.main(["overhead", "--full", "--", "--smoke", "--model", "slm"]) == 0
    _suite.main([])
    assert seen[0] == (["overhead"], ["--smoke", "--model", "slm"], True)
    assert seen[1] == (_suite.names(_suite.ROOT), [], False)
