r"""The long help texts of the commands (`\b` keeps the next paragraph's lines as they are)."""

ROOT = """Serve one answer from several language models, handing over token by token.

\b
Start here:
  trserve models                          what can be served, and what is missing
  trserve launch --preset smol-rstitch    an OpenAI-compatible server on port 8000
  trserve chat --preset smol-rstitch      chat in the terminal, each model in its colour
  trserve check my.yaml                   is this configuration all right?
  trserve profile --preset smol-rstitch   how long do its models' steps take?
  trserve tune latency.yaml --p 0.2       which batching thresholds suit that?
  trserve gateway --config pool.yaml      one address in front of many servers
  trserve bench http://127.0.0.1:8000 --rate 2    how does a server bear load?

Every command explains itself: trserve launch --help
"""

LAUNCH = """Start the server. Ctrl-C finishes running requests and stops, again stops at once.

\b
Examples:
  trserve launch --preset smol-rstitch
  trserve launch --preset smol-rstitch --set router.settings.tau=0.2 --port 9000
  TRSERVE_API_KEY=secret trserve launch --config my.yaml --host 0.0.0.0

\b
Every setting can also come from the environment (--drain-timeout is
TRSERVE_DRAIN_TIMEOUT) or from the file (in its `server:` section; those from
--context on, which are the group's own, at its top level).
A flag beats the environment, the environment beats the file.

\b
Exit status: 0 stopped after a first Ctrl-C or SIGTERM; 2 bad configuration;
130 stopped at once by a second one, or while the models were loading.
"""

CHAT = """Chat in the terminal; every token has the colour of the model that made it.

Without --url the models are loaded in this process (the preset smol-rstitch
unless you say otherwise). Ctrl-C stops an answer, again leaves; /reset forgets
the conversation, /quit leaves.

\b
Examples:
  trserve chat --preset smol-rstitch
  trserve chat --url http://127.0.0.1:8000
  trserve chat --prompt "What is the capital of France?" --json
"""

MODELS = """List the presets, whether their files are here, and the installed routers."""

CHECK = """Say, without starting, whether a configuration can be served and how.

\b
Examples:
  trserve check my.yaml
  trserve check --preset smol-rstitch --kv-memory 256MiB
  trserve check --preset qwen3-0.6b-32b-rstitch      needs no GPU and no download

What is not on this machine, as a model that is still on the hub, is listed as
not checked; the rest is.

\b
Exit status: 0 all right; 2 not, with one line that names the setting.
"""

PROFILE = """Measure how long a step of each model takes: by batch size, and by tokens ingested.

The models are loaded one after the other and have the machine to themselves.
The latency of a step is the median of --steps of them, for sequences that hold
--context-tokens; a resumed request brings several tokens into its step, so
steps with 2, 4 and 8 of them are measured too and give the cost of one more.

\b
Examples:
  trserve profile --preset smol-rstitch --out latency.yaml
  trserve profile --config my.yaml --batches 1,4,16 --steps 50
  trserve tune latency.yaml --p 0.2

\b
The entries of the file's `models:` are models of the engine `profile`: pasted
into a configuration, they simulate what was measured.
"""

TUNE = """Find the thresholds (`threshold:` of each model) with the highest throughput.

A model starts a batch only when so many requests wait for it: waiting for a few
hand-overs makes its batches larger. Which thresholds are best depends on how
many requests are active, on the models' latencies and, above all, on how often
they hand over. Nothing is loaded: throughput is computed from a Markov chain,
or simulated where that would be too large (figures with ~).

\b
Examples:
  trserve tune latency.yaml --p 0.35
  trserve tune latency.yaml --p 0.1 --q 0.4 --concurrency 1,8,32 --plot tune.png
  trserve tune --latency-ms 6.0 --latency-ms 27.9 --p 0.35
  trserve tune latency.yaml --routing '0.65,0.35;1,0' --commit '1,0;1,0'
  trserve tune --url http://127.0.0.1:8000      how a running server was used
  trserve tune latency.yaml --log metrics.txt   latencies measured, routing seen

\b
Exit status: 0; 2 for input that makes no sense, with one line that names it.
"""

GATEWAY = """Stand in front of OpenAI-compatible servers and choose one for each request.

Which instance of which model answers is one decision over quality, cost and
latency. Servers are given by URL, or are token-routed groups that the gateway
starts itself. `model: "auto"` leaves everything to it.

\b
Example of a configuration:
  models:
    - {name: small, quality: 0.45, length: 200, price_out: 0.06, tpot_s: 0.012}
    - {name: large, quality: 0.65, length: 300, price_out: 0.40, tpot_s: 0.047}
  instances:
    - {name: small-1, model: small, url: "http://10.0.0.1:8000"}
    - {name: large-1, model: large, url: "http://10.0.0.2:8000"}
  weights: balanced

\b
Examples:
  trserve gateway --demo
  trserve gateway --config pool.yaml
  TRSERVE_ADMIN_KEY=secret trserve gateway --config pool.yaml --port 9000
  trserve gateway --config pool.yaml --set weights=quality

SIGHUP reads the file again. Ctrl-C finishes running requests and stops, again
stops at once.
"""

KEY = """Make a key for a client of the gateway.

The key is shown once and kept nowhere: only its hash goes into the keys file
(`trserve gateway --keys-file FILE`), where limits can be added to its line:

\b
  - {name: alice, sha256: ..., requests_per_minute: 60, tokens_per_minute: 100000,
     concurrency: 8, models: [auto, small]}

A key with `admin: true` opens /admin, too.
"""

BENCH = """Send load to any OpenAI-compatible server and measure what clients would see.

The shape of the load is one of --rate, --clients, --trace and --burst. In all
but --clients the times of requests are fixed beforehand and latencies count
from them, not from when a request could be sent: a server that stalls is
charged with the requests that came meanwhile.

\b
TTFT: to the first chunk with content. TPOT: from there to the last, for each
further token. ITL: from a chunk to the next. E2E: to the end of the response.
Failed requests are counted by kind and are in no latency.

\b
Examples:
  trserve bench http://127.0.0.1:8000 --rate 4 --duration 60
  trserve bench http://127.0.0.1:8000 --clients 16 --requests 200 --warm-up 16
  trserve bench URL --trace mooncake.jsonl.gz --speed 2 --requests 500 --json
  trserve bench URL --burst 64 --input-tokens 512:2048 --output-tokens 256
  trserve bench URL --rate 8 --slo ttft=0.5,tpot=0.05 --save requests.jsonl

\b
Exit status: 0; 1 no request was answered; 2 a flag is wrong, with one line that
names it; 130 stopped by Ctrl-C, after the figures so far.
"""
