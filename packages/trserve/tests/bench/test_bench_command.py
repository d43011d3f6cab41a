"""`trserve bench` as people run it: what it prints, counts, saves, and how it ends."""

from __future__ import annotations

import asyncio
import json
import math
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from packages.trserve.tests.bench.misbehaviour import misbehave
from packages.trserve.tests.bench.stream_server import (
    Exchange,
    StreamServer,
    speak,
    threaded_server,
)
from tests.support.trserve.process_state import clear_variables
from tests.support.trserve.server_process import server_process
from trserve.bench.measurement import BenchPlan, measure
from trserve.bench.plan.load_plan import LoadOptions, plan_load
from trserve.bench.plan.request_plan import RequestOptions, plan_requests
from trserve.bench.results.summary import summarise
from trserve.cli.main import main


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    clear_variables(monkeypatch)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@pytest.fixture(scope="module")
def _shared() -> Iterator[StreamServer]:
    with threaded_server(misbehave) as server:
        yield server


@pytest.fixture
def server(_shared: StreamServer) -> StreamServer:
    _shared.exchanges.clear()
    return _shared


def bench(capsys: pytest.CaptureFixture[str], *arguments: object, status: int = 0) -> Any:
    """The document."""
    assert main(["bench", *map(str, arguments), "--json"]) == status
    output, error = capsys.readouterr()
    assert error == ""
    assert output.count("\n") == 1
    return json.loads(output)


def prompts(folder: Path, *lines: str) -> Path:
    path = folder / "prompts.txt"
    path.write_text("\n".join(lines))
    return path


def test_document_and_records(
    capsys: pytest.CaptureFixture[str], server: StreamServer, tmp_path: Path
) -> None:
    saved = tmp_path / "records.jsonl"
    shape = ["--rate", 200, "--requests", 12, "--warm-up", 3, "--output-tokens", "2:5"]
    rest = ["--slo", "ttft=600,e2e=1e-9", "--save", saved, "--header", "X-Team: red"]
    document = bench(capsys, server.url + "/v1/", *shape, *rest, "--api-key", "secret")

    assert len(server.exchanges) == 15
    assert {exchange.path for exchange in server.exchanges} == {"/v1/chat/completions"}
    for exchange in server.exchanges:
        assert exchange.headers["authorization"] == "Bearer secret"
        assert exchange.headers["x-team"] == "red"
        assert exchange.body["model"] == "scripted"
    asked = [exchange.body["max_tokens"] for exchange in server.exchanges[3:]]
    assert set(asked) <= {2, 3, 4, 5}

    counts = document["counts"]
    assert (counts["planned"], counts["begun"], counts["completed"]) == (12, 12, 12)
    assert (counts["failed"], counts["cut_off"]) == (0, 0)
    assert document["output"] == {
        "total": sum(asked),
        "per_s": pytest.approx(sum(asked) / document["seconds"]),
        "by_usage": 12,
        "by_chunks": 0,
        "unknown": 0,
    }
    assert document["input"]["total"] == 12 * 7
    assert document["requests_per_s"] == pytest.approx(12 / document["seconds"])
    assert document["statuses"] == {"200": 12}
    assert document["finish_reasons"] == {"length": 12}
    assert document["goodput"]["requests"] == 0
    assert document["generator"]["schedule"]["n"] == 12
    assert document["configuration"]["load"]["rate"] == 200
    assert document["configuration"]["requests"]["model"] == "scripted"
    assert "secret" not in json.dumps(document)
    assert "red" not in json.dumps(document["configuration"])

    records = [json.loads(line) for line in saved.read_text().splitlines()]
    assert [record["number"] for record in records] == list(range(12))
    # on connections of their own, requests may overtake each other
    assert sorted(record["output_tokens"] for record in records) == sorted(asked)
    for name in ("ttft", "tpot", "e2e"):
        values = [record[name] for record in records]
        assert document[name]["n"] == 12
        assert document[name]["max"] == max(values)
        assert document[name]["mean"] == pytest.approx(math.fsum(values) / 12)
    assert document["itl"]["n"] == sum(len(record["itl"]) for record in records)
    assert document["itl"]["n"] == sum(asked) - 12
    assert records[-1]["scheduled"] == pytest.approx(12 / document["offered_requests_per_s"])


def test_failures_by_kind(
    capsys: pytest.CaptureFixture[str], server: StreamServer, tmp_path: Path
) -> None:
    expected = {
        "429": ("status_429", "429: queue is full"),
        "500": ("status_5xx", "500: <html>oops"),
        "401": ("status_4xx", "401: no such key"),
        "302": ("status_other", "302"),
        "vanish": ("disconnected", ""),
        "nohttp": ("disconnected", ""),
        "half": ("broken_stream", ""),
        "short": ("broken_stream", "before the response did"),
        "garbage": ("broken_stream", "{what"),
        "html": ("broken_stream", ""),
        "whole": ("broken_stream", "it did not stream; use --no-stream"),
        "error200": ("error_event", "no such model"),
        "event": ("error_event", "model died"),
    }
    saved = tmp_path / "records"
    document = bench(
        capsys,
        *(server.url, "--clients", 1, "--requests", len(expected) + 1),
        *("--prompts", prompts(tmp_path, *expected, "good"), "--save", saved),
        *("--output-tokens", 4),
    )
    counts = document["counts"]
    assert (counts["completed"], counts["failed"]) == (1, len(expected))
    kinds = [kind for kind, _ in expected.values()]
    assert {kind: each["count"] for kind, each in document["failures"].items()} == {
        kind: kinds.count(kind) for kind in kinds
    }
    records = [json.loads(line) for line in saved.read_text().splitlines()]
    for record, (kind, message) in zip(records, [*expected.values()], strict=False):
        assert record["failure"]["kind"] == kind
        assert message in record["failure"]["message"]
    for name in ("ttft", "tpot", "e2e"):
        assert document[name]["n"] == 1
    assert document["itl"]["n"] == 3
    assert document["output"]["total"] == 4


def test_a_server_that_never_ends_its_answer(
    capsys: pytest.CaptureFixture[str], server: StreamServer, tmp_path: Path
) -> None:
    silent = prompts(tmp_path, "silent")
    document = bench(
        capsys, server.url, "--burst", 2, "--timeout", 0.2, "--prompts", silent, status=1
    )
    assert document["failures"]["timeout"]["count"] == 2
    assert document["ttft"] is document["e2e"] is None
    assert document["seconds"] >= 0.2


def test_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    document = bench(capsys, url, "--burst", 3, "--model", "m", status=1)
    assert document["failures"]["refused"]["count"] == 3
    assert document["statuses"] == {}
    assert document["ttft"] is document["e2e"] is None
    assert main(["bench", url, "--burst", "3"]) == 2
    output, error = capsys.readouterr()
    assert output == ""
    assert error.startswith(f"trserve: URL: {url}: GET /v1/models: refused: ")
    assert error.count("\n") == 1


def test_chunks_are_counted_where_usage_is_missing(
    capsys: pytest.CaptureFixture[str], server: StreamServer, tmp_path: Path
) -> None:
    document = bench(
        capsys, server.url, "--burst", 2, "--prompts", prompts(tmp_path, "nousage", "good")
    )
    assert document["output"]["total"] == 3 + 128
    assert (document["output"]["by_chunks"], document["output"]["by_usage"]) == (1, 1)
    assert document["input"]["unknown"] == 1
    assert "chunks with content count as their tokens" in document["notes"][0]


def test_several_choices_have_no_pace(
    capsys: pytest.CaptureFixture[str], server: StreamServer, tmp_path: Path
) -> None:
    document = bench(capsys, server.url, "--burst", 2, "--prompts", prompts(tmp_path, "two"))
    assert document["tpot"] is document["itl"] is None
    assert (document["ttft"]["n"], document["output"]["total"]) == (2, 8)
    assert document["several_choices"] == 2
    assert any("2 responses had several choices" in note for note in document["notes"])


def test_without_streaming(
    capsys: pytest.CaptureFixture[str], server: StreamServer, tmp_path: Path
) -> None:
    document = bench(
        capsys, server.url, "--burst", 2, "--no-stream", "--prompts", prompts(tmp_path, "whole")
    )
    assert server.exchanges[0].body["stream"] is False
    assert document["ttft"] is document["tpot"] is document["itl"] is None
    assert document["e2e"]["n"] == 2
    assert (document["output"]["total"], document["input"]["total"]) == (4, 8)


def test_a_trace(capsys: pytest.CaptureFixture[str], server: StreamServer, tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    lines = [(0, 30, 2), (40, 5, 4), (90, 7, 3)]
    trace.write_text(
        "\n".join(
            json.dumps({"timestamp": at, "input_length": read, "output_length": written})
            for at, read, written in lines
        )
    )
    saved = tmp_path / "records"
    document = bench(capsys, server.url, "--trace", trace, "--speed", 2, "--save", saved)
    records = [json.loads(line) for line in saved.read_text().splitlines()]
    assert [record["scheduled"] for record in records] == [0, 0.02, 0.045]
    assert [record["output_tokens"] for record in records] == [2, 4, 3]
    assert sorted(len(exchange.prompt.split()) for exchange in server.exchanges) == [5, 7, 30]
    assert document["configuration"]["load"]["trace"] == str(trace)


def test_tables_for_people(
    capsys: pytest.CaptureFixture[str], server: StreamServer, tmp_path: Path
) -> None:
    lines = prompts(tmp_path, "good", "429")
    arguments = ["--clients", "2", "--requests", "10", "--slo", "e2e=99", "--prompts", str(lines)]
    assert main(["bench", server.url, *arguments]) == 0
    output, error = capsys.readouterr()
    assert error == ""
    assert "requests: 5 complete, 5 failed, 0 cut off; 10 of 10 sent in " in output
    for heading in ("TTFT", "TPOT", "ITL", "E2E", "p50", "p90", "p95", "p99", "max", "mean"):
        assert heading in output
    assert "5 requests, 50.0%" in output
    assert "status_429" in output
    assert "429: queue is full" in output
    assert "generator's event loop lag: p50 " in output
    assert "% of a core" in output
    assert max(map(len, output.splitlines())) <= 120
    assert main(["bench", server.url, "--burst", "2", "--max-in-flight", "1"]) == 0
    output = capsys.readouterr().out
    assert "generator lag: p50 " in output
    assert "wait for a slot (--max-in-flight): p50 " in output
    assert "offered" not in output
    trace = tmp_path / "trace.jsonl"
    trace.write_text('{"timestamp": 0}\n{"timestamp": 40}\n')
    assert main(["bench", server.url, "--trace", str(trace), "--output-tokens", "1"]) == 0
    assert " requests/s of 50.00 offered, input " in capsys.readouterr().out


def test_progress_in_a_terminal(
    capsys: pytest.CaptureFixture[str], server: StreamServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    shape = LoadOptions(clients=1, requests=30)
    load = plan_load(shape)
    requests = RequestOptions(
        endpoint="chat",
        model=None,
        prompts=None,
        input_tokens=None,
        output_tokens=None,
        temperature=None,
        stream=True,
        extra_body=None,
        headers=(),
        api_key=None,
        timeout=60.0,
    )
    plan = BenchPlan(server.url, load, plan_requests(requests, load, shape.seed), 0)
    result = measure(plan, redraw_s=0.001)
    assert summarise(result.observed, None).counts.completed == 30
    output, error = capsys.readouterr()
    assert output == ""
    assert "of 30" in error
    assert "requests/s" in error
    assert "1 in flight" in error
    assert "0 failed" in error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--rate: say how to load"),
        (["--rate", "x"], "Invalid value for '--rate'"),
        (["--rate", "-1"], "--rate: must be above 0"),
        (["--clients", "0"], "Invalid value for '--clients'"),
        (["--rate", "1", "--clients", "1"], "--clients: one shape"),
        (["--rate", "1", "--output-tokens", "x"], "--output-tokens: "),
        (["--rate", "1", "--slo", "x"], "--slo: "),
        (["--rate", "1", "--no-stream", "--slo", "ttft=1"], "--slo: ttft and tpot need --stream"),
        (["--rate", "1", "--save", "/none/x"], "--save: there is no folder /none"),
        (["--trace", "none.csv"], "--trace: none.csv: No such file"),
        (["--rate", "1", "--extra-body", "{"], "--extra-body: "),
        (["--rate", "1", "--endpoint", "x"], "--endpoint: "),
        (["--rate", "1", "--requests", "9" * 15], "--requests: at most"),
        (["--burst", "9" * 15], "--burst: at most"),
        (["--rate", "1", "--input-tokens", "9" * 5000], "--input-tokens: "),
        (["--rate", "1", "--model", "\udcff"], "--model: expected UTF-8"),
        (["--rate", "1", "--extra-body", '{"a": "\udcff"}'], "--extra-body: expected UTF-8"),
    ],
)
def test_bad_flags(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert main(["bench", "http://127.0.0.1:9", *arguments]) == 2
    output, error = capsys.readouterr()
    assert output == ""
    assert error.startswith(f"trserve: {message}")
    assert error.count("\n") == 1


def test_a_bad_url(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "localhost:8000", "--burst", "1"]) == 2
    assert capsys.readouterr().err.startswith("trserve: URL: expected one like http://")
    assert main(["bench", "http://me:secret@localhost", "--burst", "1"]) == 2
    assert capsys.readouterr().err.startswith("trserve: URL: expected no user, query or fragment")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_reports_what_was_measured(number: signal.Signals, tmp_path: Path) -> None:
    stuck: list[Exchange] = []
    process: list[Any] = []

    async def answer(exchange: Exchange) -> None:
        if exchange.prompt != "stuck":
            await speak(exchange)
            return
        stuck.append(exchange)
        if len(stuck) == 2:
            process[0].signal(number)
        await asyncio.Event().wait()

    lines = prompts(tmp_path, "good", "good", "stuck", "good", "stuck", "good")
    saved = tmp_path / "records"
    with threaded_server(answer) as server:
        command = ["-m", "trserve", "bench", server.url, "--clients", "2", "--requests", "50"]
        options = ["--prompts", str(lines), "--save", str(saved), "--json"]
        with server_process([*command, *options]) as bench_process:
            process.append(bench_process)
            status, output, errors = bench_process.finish()
    assert (status, errors) == (130, [])
    document = json.loads(output)
    assert document["stopped"]
    counts = document["counts"]
    assert (counts["completed"], counts["failed"], counts["cut_off"]) == (3, 0, 2)
    assert (counts["begun"], counts["planned"]) == (5, 50)
    assert document["e2e"]["n"] == 3
    assert len(saved.read_text().splitlines()) == 3


def test_ctrl_c_before_the_load(capsys: pytest.CaptureFixture[str]) -> None:
    """While it still asks for the models."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        command = ["-m", "trserve", "bench", url, "--burst", "2", "--json"]
        with server_process(command) as process:
            connection, _ = listener.accept()
            with connection:
                assert connection.recv(1)
                process.signal()
                status, output, errors = process.finish()
    assert (status, errors) == (130, [])
    assert json.loads(output)["counts"]["begun"] == 0


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import json, sys\n"
        "from trserve.cli.main import main\n"
        "main(['bench', '--help'])\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    )
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True
    )
    assert not {"aiohttp", "numpy", "rich", "uvloop"} & set(json.loads(run.stdout.splitlines()[-1]))
