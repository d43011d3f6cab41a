"""SGLang's own HTTP server, unmodified, in this process and those it spawns: ``python -m … ARGS``.

ARGS is a JSON object, fields of SGLang's ServerArgs. Stops at SIGINT or SIGTERM.
"""

from __future__ import annotations

import json
import sys

import torch

import sglang_cpu_shims

if not torch.cuda.is_available():
    # here, since the processes that SGLang spawns import this module, too
    sglang_cpu_shims.install()


def main() -> None:
    """Serve until told to stop."""
    from sglang.srt.entrypoints.http_server import launch_server
    from sglang.srt.server_args import ServerArgs

    launch_server(ServerArgs(**json.loads(sys.argv[1])))


if __name__ == "__main__":
    main()
