"""An MCP server of the standard library alone, which can misbehave. Started as a program: raw_server.py [MODE]."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

NAMES = [
    "echo",
    "die",
    "sleep",
    "big",
    "garbage",
    "broken",
    "spawn",
    "env",
    "talk",
    "pid",
    "cancelled",
    "deaf",
]
NAMES += ["orphan", "ask", "patience", "sample", "grow"]
ANYTHING = {"type": "object", "additionalProperties": True}
TOOLS = {name: {"name": name, "description": f"Does {name}.", "inputSchema": ANYTHING} for name in NAMES}
cancelled: list[object] = []
lock = threading.Lock()


def send(message):
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def raw(text):
    with lock:
        sys.stdout.write(text)
        sys.stdout.flush()


def answer(id_, value):
    text = value if isinstance(value, str) else json.dumps(value)
    send({"id": id_, "result": {"content": [{"type": "text", "text": text}], "resultType": "complete"}})


# What a server that speaks the protocol of 2026 alone does.
MODERN = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
WANTED = {
    "ask": (
        "elicitation/create",
        {"mode": "form", "message": "Name?", "requestedSchema": {"type": "object", "properties": {}}},
    ),
    "sample": ("sampling/createMessage", {"messages": [], "maxTokens": 1}),
}
listening: list[object] = []


def modern(id_, method, params):
    if method == "initialize":
        data = {"supported": ["2026-07-28"], "requested": params["protocolVersion"]}
        send({"id": id_, "error": {"code": -32022, "message": "Unsupported protocol version", "data": data}})
    elif method == "server/discover":
        capabilities = {"tools": {"listChanged": True}}
        send(
            {
                "id": id_,
                "result": {"supportedVersions": ["2026-07-28"], "capabilities": capabilities, **MODERN},
            }
        )
    elif method == "tools/list":
        send({"id": id_, "result": {"tools": list(TOOLS.values()), **MODERN}})
    elif method == "subscriptions/listen":
        listening.append(id_)
        notify("subscriptions/acknowledged", notifications={"toolsListChanged": True})
    elif method == "tools/call" and params["name"] == "grow":
        TOOLS["grown"] = {"name": "grown", "inputSchema": ANYTHING}
        notify("tools/list_changed")
        answer(id_, "grown")
    elif method == "tools/call" and params["name"] in (*WANTED, "patience"):
        rounds = int(params.get("requestState", 0))
        if rounds < (1 if params["name"] in WANTED else 3):
            wanted = {"requestState": str(rounds + 1), "resultType": "input_required"}
            if params["name"] in WANTED:
                asked, with_ = WANTED[params["name"]]
                wanted["inputRequests"] = {"q": {"method": asked, "params": with_}}
            send({"id": id_, "result": wanted})
        else:
            answer(id_, params.get("inputResponses", rounds))
    else:
        return False
    return True


def notify(method, **params):
    about = {"_meta": {"io.modelcontextprotocol/subscriptionId": listening[-1]}}
    send({"method": f"notifications/{method}", "params": {**about, **params}})


def call(id_, name, args):
    if name == "echo":
        answer(id_, args)
    elif name == "die":
        print("about to die: token=" + os.environ.get("SECRET_TOKEN", ""), file=sys.stderr, flush=True)
        os._exit(args.get("code", 7))
    elif name == "sleep":
        time.sleep(args["seconds"])
        answer(id_, "slept")
    elif name == "big":
        result = '{"content":[{"type":"text","text":"' + "x" * args["size"] + '"}]}'
        if args.get("id_last"):
            raw('{"result":' + result + f',"jsonrpc":"2.0","id":{id_}}}\n')
        elif args.get("endless"):
            while True:
                raw("x" * 2**16)
        elif args.get("no_id"):
            raw("x" * args["size"] + "\n")
            answer(id_, "after all")
        else:
            raw(f'{{"jsonrpc":"2.0","id":{id_},"result":{result}}}\n')
    elif name == "garbage":
        raw("?\n" * args.get("lines", 0))
        raw("Server ready!\n\n\x00\xff not json\n[]\n{}\n" + '{"jsonrpc": "2.0"}\n')
        answer(id_, "clean")
    elif name == "broken":
        raw(f'{{"jsonrpc":"2.0","id":{id_},"result":{{"content":[}}\n')
    elif name == "spawn":
        child = subprocess.Popen(["sleep", "1000"], start_new_session=args.get("session", False))
        answer(id_, child.pid)
    elif name == "orphan":
        # A child that holds stdout, and the server ends.
        subprocess.Popen(["sleep", "1000"])
        os._exit(3)
    elif name == "env":
        answer(id_, sorted(os.environ))
    elif name == "talk":
        for n in range(args["lines"]):
            print(f"line {n} " + "y" * args.get("width", 10), file=sys.stderr)
        sys.stderr.flush()
        answer(id_, "said")
    elif name == "pid":
        answer(id_, os.getpid())
    elif name == "cancelled":
        answer(id_, cancelled)
    elif name == "deaf":
        while True:
            time.sleep(1000)
    else:
        answer(id_, {"tool": name, **args})


def listing(mode, cursor):
    if mode == "pages":
        first = int(cursor or 0)
        tools = [{"name": f"tool_{n}", "inputSchema": {"type": "object"}} for n in range(first, first + 50)]
        more = {"nextCursor": str(first + 50)} if first + 50 < 500 else {}
        return {"tools": tools, **more}
    if mode.endswith(".json"):
        return {"tools": json.loads(Path(mode).read_text())}
    if mode == "loop":
        return {"tools": [TOOLS["echo"]], "nextCursor": "again"}
    return {"tools": list(TOOLS.values())}


def main():
    mode = sys.argv[1] if len(sys.argv) > 1 else ""
    print(f"started {mode}", file=sys.stderr, flush=True)
    if mode == "dies":
        print("no configuration; secret " + os.environ.get("SECRET_TOKEN", ""), file=sys.stderr, flush=True)
        sys.exit(4)
    for line in sys.stdin:
        message = json.loads(line)
        id_, method, params = message.get("id"), message.get("method"), message.get("params") or {}
        if mode == "mute":
            continue
        if mode == "modern" and modern(id_, method, params):
            continue
        if method == "initialize":
            info = {"name": "raw", "version": "1"}
            capabilities = {"tools": {"listChanged": True}}
            version = "1999-01-01" if mode == "old" else params["protocolVersion"]
            send(
                {
                    "id": id_,
                    "result": {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info},
                }
            )
        elif method == "tools/list":
            send({"id": id_, "result": listing(mode, params.get("cursor"))})
        elif method == "tools/call":
            args = (id_, params["name"], params.get("arguments") or {})
            if params["name"] in ("sleep", "big"):
                threading.Thread(target=call, args=args, daemon=True).start()
            else:
                call(*args)
        elif method == "notifications/cancelled":
            cancelled.append(params["requestId"])
        elif id_ is not None:
            send({"id": id_, "error": {"code": -32601, "message": "Method not found"}})
    if mode == "stays":
        with contextlib.suppress(KeyboardInterrupt):
            import signal

            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(1000)


main()
