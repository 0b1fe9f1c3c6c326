"""The program that serves an embedded model on loopback, in a process of its own.

Comes in: on stdin one line of JSON: the weights' path, the model's name, the window, the threads and a key.
Goes out: on stdout one line of JSON with the server's URL, once it answers. It ends when stdin does, so it
never outlives the host, however that ended. It is run by its path and imports nothing of ours.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

PROMPT_CACHE_MIB = 512
"""Memory for the states of earlier prompts, so that a sub-agent's turn does not cost its parent a re-read;
the server's own default is 8192."""


def serve(config: dict[str, Any]) -> Any:
    """Load the model and serve it; returns the server once it answers. It stops when nothing holds it."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = config["path"]
    params.model_alias = {config["name"]}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [config["key"]]
    params.n_ctx = config["window"]
    params.n_parallel = 1
    params.cpuparams.n_threads = config["threads"]
    params.cpuparams_batch.n_threads = config["threads"]
    params.cache_ram_mib = PROMPT_CACHE_MIB
    params.ui = False
    params.offline = True
    params.verbosity = 1
    return xllamacpp.Server(params)


def main() -> None:
    """Serve until stdin ends."""
    # The terminal's Ctrl-C is for the host, which ends this process when it is done with it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    config = json.loads(sys.stdin.readline())
    server = serve(config)
    print(json.dumps({"url": server.listening_address}), flush=True)
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
