"""Records messages of real servers for the golden corpus of `wire`.

Talks plain JSON-RPC to the installed peers, over stdio and HTTP, in every revision each of them speaks, and writes
chosen messages byte for byte as they travelled, one per file, into `crates/wire/tests/corpus/recorded/`:
`NN-<server>-<revision>-<what>.json`. Messages we sent ourselves have `sent` in the name. Run it after
`tests/interop/install`, with the Python of `.interop/venv`, when the peers' versions change; look at the difference.

    .interop/venv/bin/python tests/interop/record.py

It needs a folder it may create and fill (`/srv/demo` unless another is named), so that no path of this machine is in a
message, and refuses to write one that names this machine, its user or this repository.
"""

import argparse
import getpass
import http.client
import json
import os
import queue
import re
import shutil
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, Callable

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / ".interop"
OUTPUT = ROOT / "crates/wire/tests/corpus/recorded"
NODE = PEERS / "node_modules/.bin/node"
PACKAGES = PEERS / "node_modules/@modelcontextprotocol"
PYTHON = PEERS / "venv/bin/python"
SERVERS = ROOT / "tests/interop/servers"

LARGEST = 64 * 1024
PATIENCE = 20.0

LEGACY = "2025-11-25"
MODERN = "2026-07-28"
CLIENT = {"name": "recorder", "version": "1.0.0"}
LEGACY_CAPABILITIES = {
    "roots": {"listChanged": True},
    "sampling": {"tools": {}, "context": {}},
    "elicitation": {"form": {}, "url": {}},
    "tasks": {
        "list": {},
        "cancel": {},
        "requests": {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}},
    },
}
MODERN_CAPABILITIES = {"roots": {}, "sampling": {}, "elicitation": {"form": {}, "url": {}}}
PREFIX = "io.modelcontextprotocol/"

# A tenth of a second of silence, and a red dot.
WAV = bytes.fromhex("524946462c00000057415645666d74201000000001000100401f0000401f0000010008006461746108000000") + b"\x80" * 8
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de"
    "0000000c49444154789c63f8cfc0000003010100c9fe92ef0000000049454e44ae426082"
)

Message = dict[str, Any]


class Corpus:
    """The files written so far, and what must not be in them."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.count = 0
        names = {str(ROOT), str(Path.home()), socket.gethostname()}
        self.forbidden = [name for name in names if len(name) > 3]
        # A short user name is an ordinary word; as part of a path it is not.
        self.forbidden += [f"/{getpass.getuser()}/", f"/home/{getpass.getuser()}"]
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)

    def keep(self, server: str, revision: str, what: str, raw: bytes) -> None:
        text = raw.decode()
        json.loads(text)
        if len(raw) > LARGEST:
            raise SystemExit(f"{server} {what}: {len(raw)} bytes are too many")
        for name in self.forbidden:
            if name in text:
                raise SystemExit(f"{server} {what}: the message names this machine")
        self.count += 1
        (self.folder / f"{self.count:03}-{server}-{revision}-{what}.json").write_bytes(raw)


class Peer:
    """A server, whatever carries the messages. All that arrived is in `seen`, in order."""

    def __init__(self, corpus: Corpus, name: str, revision: str):
        self.corpus, self.name, self.revision = corpus, name, revision
        self.seen: list[tuple[bytes, Message]] = []
        self.news = threading.Condition()
        self.answers: dict[str, Callable[[Message], Message]] = {}
        self.next_id = 0

    # What a transport does.

    def send(self, message: Message) -> bytes:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    # What all of them do.

    def arrived(self, raw: bytes) -> None:
        message = json.loads(raw)
        with self.news:
            self.seen.append((raw, message))
            self.news.notify_all()
        if isinstance(message, dict) and "method" in message and "id" in message:
            answer = self.answers.get(message["method"])
            reply = {"result": answer(message)} if answer else {"error": {"code": -32601, "message": "Method not found"}}
            self.send({"jsonrpc": "2.0", "id": message["id"], **reply})

    def wait(self, wanted: Callable[[Message], bool], since: int = 0) -> bytes:
        deadline = time.monotonic() + PATIENCE
        with self.news:
            while True:
                for raw, message in self.seen[since:]:
                    if isinstance(message, dict) and wanted(message):
                        return raw
                left = deadline - time.monotonic()
                if left <= 0 or not self.news.wait(left):
                    raise SystemExit(f"{self.name}: nothing came; the last was {self.seen[-1:]}")

    def meta(self, **more: Any) -> Message:
        if self.revision != MODERN:
            return more
        own = {"protocolVersion": MODERN, "clientInfo": CLIENT, "clientCapabilities": MODERN_CAPABILITIES}
        return {**{PREFIX + key: value for key, value in own.items()}, **more}

    def message(self, method: str, params: Message | None, meta: Message) -> Message:
        self.next_id += 1
        params = dict(params or {})
        whole = self.meta(**meta)
        if whole:
            params["_meta"] = {**params.get("_meta", {}), **whole}
        request: Message = {"jsonrpc": "2.0", "id": self.next_id, "method": method}
        if params:
            request["params"] = params
        return request

    def ask(self, method: str, params: Message | None = None, keep: str = "", sent: str = "", **meta: Any) -> Message:
        """Sends a request, waits for its response and keeps it (and the request) under the names given."""
        request = self.message(method, params, meta)
        raw_request = self.send(request)
        raw = self.wait(lambda message: message.get("id") == request["id"] and "method" not in message)
        if sent:
            self.keep(f"sent-{sent}", raw_request)
        if keep:
            self.keep(keep, raw)
        return json.loads(raw)

    def tell(self, method: str, params: Message | None = None, sent: str = "") -> None:
        note: Message = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            note["params"] = params
        raw = self.send(note)
        if sent:
            self.keep(f"sent-{sent}", raw)

    def hear(self, method: str, keep: str, wanted: Callable[[Message], bool] = lambda message: True, since: int = 0) -> Message:
        """Waits for a notification or request of the server and keeps it."""
        raw = self.wait(lambda message: message.get("method") == method and wanted(message), since)
        self.keep(keep, raw)
        return json.loads(raw)

    def keep(self, what: str, raw: bytes) -> None:
        self.corpus.keep(self.name, self.revision, what, raw)

    def initialize(self, keep: str = "initialize-result", sent: str = "", capabilities: Message = LEGACY_CAPABILITIES) -> Message:
        params = {"protocolVersion": self.revision, "capabilities": capabilities, "clientInfo": CLIENT}
        result = self.ask("initialize", params, keep, sent)
        self.tell("notifications/initialized")
        return result


class Stdio(Peer):
    """A server as a child process, one message per line."""

    def __init__(self, corpus: Corpus, name: str, revision: str, command: list[Any], folder: Path, **environment: str):
        super().__init__(corpus, name, revision)
        self.process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env={"PATH": os.environ["PATH"], "HOME": str(folder), "TZ": "UTC", **environment},
        )
        threading.Thread(target=self.read, daemon=True).start()

    def read(self) -> None:
        for line in self.process.stdout:
            if line.strip():
                self.arrived(line.removesuffix(b"\n"))

    def send(self, message: Message) -> bytes:
        raw = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()
        self.process.stdin.write(raw + b"\n")
        self.process.stdin.flush()
        return raw

    def close(self) -> None:
        self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Http(Peer):
    """A server over Streamable HTTP; every POST has a thread that reads what it brings."""

    def __init__(self, corpus: Corpus, name: str, revision: str, port: int, path: str = "/mcp"):
        super().__init__(corpus, name, revision)
        self.port, self.path, self.session = port, path, None
        self.headers: dict[str, str] = {}

    def send(self, message: Message) -> bytes:
        raw = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()
        started: queue.Queue[None] = queue.Queue()
        threading.Thread(target=self.post, args=(message, raw, started), daemon=True).start()
        started.get(timeout=PATIENCE)
        return raw

    def post(self, message: Message, raw: bytes, started: queue.Queue[None]) -> None:
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if self.revision == MODERN:
            headers["MCP-Protocol-Version"] = MODERN
            if "id" in message:
                headers["Mcp-Method"] = message["method"]
            params = message.get("params", {})
            name = params.get("uri" if message.get("method") == "resources/read" else "name")
            if isinstance(name, str) and message.get("method") in ("tools/call", "prompts/get", "resources/read"):
                headers["Mcp-Name"] = name
        elif self.session:
            headers |= {"MCP-Session-Id": self.session, "MCP-Protocol-Version": self.revision}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.request("POST", self.path, raw, {**headers, **self.headers})
        response = connection.getresponse()
        self.session = response.headers.get("mcp-session-id", self.session)
        started.put(None)
        self.read(response)
        connection.close()

    def read(self, response: http.client.HTTPResponse) -> None:
        if "text/event-stream" in response.headers.get("content-type", ""):
            for _, data in events(response):
                if data:
                    self.arrived(data)
        elif body := response.read():
            self.arrived(body)

    def listen(self) -> None:
        """The standing stream of the session."""
        threading.Thread(target=self.get, daemon=True).start()

    def get(self) -> None:
        headers = {"Accept": "text/event-stream", "MCP-Session-Id": self.session, "MCP-Protocol-Version": self.revision}
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request("GET", self.path, headers=headers)
        self.read(connection.getresponse())

    def close(self) -> None:
        if self.session:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
            connection.request("DELETE", self.path, headers={"MCP-Session-Id": self.session})
            connection.getresponse().read()


class Sse(Peer):
    """A server over the two endpoints of 2024-11-05."""

    def __init__(self, corpus: Corpus, name: str, revision: str, port: int):
        super().__init__(corpus, name, revision)
        self.port, self.endpoint = port, queue.Queue()
        threading.Thread(target=self.get, daemon=True).start()
        self.path = self.endpoint.get(timeout=PATIENCE)

    def get(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request("GET", "/sse", headers={"Accept": "text/event-stream"})
        for event, data in events(connection.getresponse()):
            if event == b"endpoint":
                self.endpoint.put(data.decode())
            elif data:
                self.arrived(data)

    def send(self, message: Message) -> bytes:
        raw = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.request("POST", self.path, raw, {"Content-Type": "application/json"})
        connection.getresponse().read()
        connection.close()
        return raw

    def close(self) -> None:
        pass


def events(response: http.client.HTTPResponse):
    """The events of a stream as (name, data), the data as it came."""
    name, data = b"message", []
    while line := response.readline():
        line = line.rstrip(b"\r\n")
        if line.startswith(b"data:"):
            data.append(line[5:].removeprefix(b" "))
        elif line.startswith(b"event:"):
            name = line[6:].strip()
        elif not line:
            yield name, b"\n".join(data)
            name, data = b"message", []


class Listener:
    """A server process that listens on a port, ended when the block is left."""

    def __init__(self, command: list[Any], folder: Path, port: int | None = None, **environment: str):
        self.port = port
        self.process = subprocess.Popen(
            [str(word) for word in command],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env={"PATH": os.environ["PATH"], "HOME": str(folder), "TZ": "UTC", **environment},
        )

    def __enter__(self) -> int:
        if self.port is None:
            self.port = int(re.search(rb"listening on http://127.0.0.1:(\d+)/", self.process.stdout.readline())[1])
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return self.port
            except OSError:
                time.sleep(0.05)
        raise SystemExit(f"nothing listens on port {self.port}")

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


# === what we answer when a server asks ===


def roots(folder: Path) -> Callable[[Message], Message]:
    return lambda _: {"roots": [{"uri": folder.as_uri(), "name": "demo"}]}


def a_line(_: Message) -> Message:
    content = {"type": "text", "text": "Still water, a grey heron."}
    return {"role": "assistant", "content": content, "model": "model-of-the-recorder", "stopReason": "endTurn"}


def accept(**content: Any) -> Callable[[Message], Message]:
    return lambda _: {"action": "accept", "content": content}


# === the recordings ===


def everything_over_stdio(corpus: Corpus, folder: Path) -> None:
    command = [NODE, PACKAGES / "server-everything/dist/index.js", "stdio"]
    peer = Stdio(corpus, "everything", LEGACY, command, folder)
    peer.answers = {"roots/list": roots(folder), "sampling/createMessage": a_line, "elicitation/create": accept(name="Ada")}
    peer.initialize(sent="initialize")
    peer.hear("roots/list", "ask-roots")
    peer.hear("notifications/message", "log-roots-updated")
    peer.hear("notifications/tools/list_changed", "tools-list-changed")
    peer.ask("ping", keep="ping-result", sent="ping")

    peer.ask("tools/list", keep="tools-list", sent="tools-list")
    peer.ask("prompts/list", keep="prompts-list")
    peer.ask("resources/list", keep="resources-list")
    peer.ask("resources/templates/list", keep="templates-list")

    def call(tool: str, arguments: Message, keep: str = "", **more: Any) -> Message:
        return peer.ask("tools/call", {"name": tool, "arguments": arguments}, keep, **more)

    call("echo", {"message": "Grüße, 世界 \U0001f30d \u2028 \"quoted\" \\ back"}, "call-text", sent="tools-call")
    call("get-tiny-image", {}, "call-image")
    call("get-annotated-message", {"messageType": "error", "includeImage": False}, "call-annotated")
    call("get-structured-content", {"location": "Chicago"}, "call-structured")
    call("get-resource-links", {"count": 4}, "call-resource-links")
    call("get-resource-reference", {"resourceType": "Text", "resourceId": 1}, "call-embedded-text")
    call("get-resource-reference", {"resourceType": "Blob", "resourceId": 2}, "call-embedded-blob")
    call("get-sum", {"a": 0.1, "b": 0.2}, "call-sum")
    call("get-sum", {"a": "three"}, "call-invalid-arguments")
    call("no-such-tool", {}, "call-unknown-tool")
    call("gzip-file-as-resource", {"name": "hello.txt.gz", "data": "data:text/plain,hello", "outputType": "resourceLink"}, "call-gzip-link")
    peer.hear("notifications/resources/list_changed", "resources-list-changed")

    call("trigger-long-running-operation", {"duration": 0.4, "steps": 2}, "call-long", progressToken="p-1")
    peer.hear("notifications/progress", "progress-string-token")
    call("trigger-sampling-request", {"prompt": "a heron", "maxTokens": 40}, "call-after-sampling")
    peer.hear("sampling/createMessage", "ask-sampling")
    call("trigger-elicitation-request", {}, "call-after-elicitation")
    peer.hear("elicitation/create", "ask-elicitation-form")
    page = {"url": "https://example.org/connect", "elicitationId": "e-1"}
    peer.answers["elicitation/create"] = lambda _: {"action": "accept"}
    call("trigger-url-elicitation", page, "call-after-url-elicitation")
    peer.hear("elicitation/create", "ask-elicitation-url", lambda message: message["params"].get("mode") == "url")
    call("trigger-url-elicitation", {**page, "errorPath": True}, "error-url-elicitation-required")

    peer.ask("prompts/get", {"name": "simple-prompt"}, "prompt-simple")
    peer.ask("prompts/get", {"name": "args-prompt", "arguments": {"city": "Oslo"}}, "prompt-arguments", sent="prompts-get")
    peer.ask("prompts/get", {"name": "resource-prompt", "arguments": {"resourceType": "Text", "resourceId": "3"}}, "prompt-resource")
    peer.ask("prompts/get", {"name": "args-prompt"}, "error-prompt-arguments")
    department = {"ref": {"type": "ref/prompt", "name": "completable-prompt"}, "argument": {"name": "department", "value": "S"}}
    peer.ask("completion/complete", department, "completion", sent="completion")
    within = {**department, "argument": {"name": "name", "value": ""}, "context": {"arguments": {"department": "Sales"}}}
    peer.ask("completion/complete", within, "completion-in-context")

    text, blob = "demo://resource/dynamic/text/1", "demo://resource/dynamic/blob/2"
    peer.ask("resources/read", {"uri": text}, "read-text", sent="resources-read")
    peer.ask("resources/read", {"uri": blob}, "read-blob")
    peer.ask("resources/read", {"uri": "demo://nowhere"}, "error-resource-not-found")
    peer.ask("resources/subscribe", {"uri": text}, "subscribe-result", sent="subscribe")
    call("toggle-subscriber-updates", {}, "call-toggle-updates")
    peer.hear("notifications/resources/updated", "resource-updated")
    call("toggle-subscriber-updates", {})
    peer.ask("resources/unsubscribe", {"uri": text}, "unsubscribe-result")
    peer.ask("logging/setLevel", {"level": "debug"}, "set-level-result", sent="set-level")
    peer.ask("no/such/method", keep="error-method-not-found")

    everything_tasks(peer)
    peer.tell("notifications/cancelled", {"requestId": 999, "reason": "no longer needed"}, sent="cancelled")
    peer.close()


def everything_tasks(peer: Peer) -> None:
    """The tasks of the 2025-11-25 core, both ways."""
    peer.answers["elicitation/create"] = accept(interpretation="technical")
    query = {"name": "simulate-research-query", "arguments": {"topic": "python", "ambiguous": True}, "task": {"ttl": 60000}}
    made = peer.ask("tools/call", query, "task-created", sent="tools-call-as-task")
    task = {"taskId": made["result"]["task"]["taskId"]}
    peer.ask("tasks/get", task, "task-working", sent="tasks-get")
    since = len(peer.seen)
    peer.ask("tasks/result", task, "task-result", sent="tasks-result")
    peer.hear("elicitation/create", "ask-elicitation-of-task", since=since)
    peer.ask("tasks/get", task, "task-completed")
    peer.ask("tasks/list", keep="tasks-of-server")
    other = peer.ask("tools/call", {**query, "arguments": {"topic": "herons"}})
    peer.ask("tasks/cancel", {"taskId": other["result"]["task"]["taskId"]}, "task-cancelled", sent="tasks-cancel")
    peer.ask("tasks/get", {"taskId": "no-such-task"}, "error-task-unknown")

    # The server asks us to run its sampling request as a task of ours.
    since = len(peer.seen)
    stamp = "2026-01-01T00:00:00Z"
    ours = {"taskId": "of-the-recorder", "createdAt": stamp, "lastUpdatedAt": stamp, "ttl": 60000, "pollInterval": 100}
    peer.answers |= {
        "sampling/createMessage": lambda _: {"task": {**ours, "status": "working"}},
        "tasks/get": lambda _: {**ours, "status": "completed"},
        "tasks/result": a_line,
    }
    peer.ask("tools/call", {"name": "trigger-sampling-request-async", "arguments": {"prompt": "a heron"}}, "call-after-sampling-task")
    peer.hear("sampling/createMessage", "ask-sampling-as-task", since=since)
    peer.hear("tasks/get", "ask-task-of-client", since=since)


def everything_over_http(corpus: Corpus, folder: Path) -> None:
    port = free_port()
    command = [NODE, PACKAGES / "server-everything/dist/index.js", "streamableHttp"]
    with Listener(command, folder, port, PORT=str(port)) as port:
        # The refusal names no id.
        peer = Http(corpus, "everything-http", MODERN, port)
        peer.send(peer.message("server/discover", {}, {}))
        peer.keep("refused-discover", peer.wait(lambda message: "error" in message))
        for revision in ("2025-03-26", "2025-06-18", LEGACY):
            peer = Http(corpus, "everything-http", revision, port)
            peer.answers = {"roots/list": roots(folder)}
            peer.initialize()
            peer.listen()
            peer.hear("roots/list", "ask-roots")
            sum_of = {"name": "get-sum", "arguments": {"a": 2, "b": 3}}
            peer.ask("tools/call", sum_of, "call-sum")
            peer.close()
        peer = Http(corpus, "everything-http", LEGACY, port)
        peer.initialize(keep="", capabilities={})
        steps = {"name": "trigger-long-running-operation", "arguments": {"duration": 0.4, "steps": 2}}
        peer.ask("tools/call", steps, "call-long", progressToken=7)
        peer.hear("notifications/progress", "progress-number-token")
        peer.close()


def everything_over_sse(corpus: Corpus, folder: Path) -> None:
    port = free_port()
    command = [NODE, PACKAGES / "server-everything/dist/index.js", "sse"]
    with Listener(command, folder, port, PORT=str(port)) as port:
        peer = Sse(corpus, "everything-sse", "2024-11-05", port)
        peer.initialize(capabilities={})
        peer.ask("tools/call", {"name": "echo", "arguments": {"message": "old wire"}}, "call-text")
        peer.ask("prompts/list", keep="prompts-list")


def filesystem(corpus: Corpus, folder: Path) -> None:
    (folder / "notes.txt").write_text("first line\r\nsecond\tline\n")
    (folder / "silence.wav").write_bytes(WAV)
    (folder / "dot.png").write_bytes(PNG)
    peer = Stdio(corpus, "filesystem", LEGACY, [NODE, PACKAGES / "server-filesystem/dist/index.js"], folder)
    peer.answers = {"roots/list": roots(folder)}
    peer.initialize()
    peer.hear("roots/list", "ask-roots")
    peer.ask("tools/list", keep="tools-list")

    def call(tool: str, arguments: Message, keep: str) -> None:
        peer.ask("tools/call", {"name": tool, "arguments": arguments}, keep)

    call("list_allowed_directories", {}, "call-folders")
    call("read_text_file", {"path": str(folder / "notes.txt")}, "call-text-with-line-ends")
    call("read_media_file", {"path": str(folder / "silence.wav")}, "call-audio")
    call("read_media_file", {"path": str(folder / "dot.png")}, "call-image")
    call("read_text_file", {"path": "/etc/hostname"}, "call-refused")
    peer.close()


def memory(corpus: Corpus, folder: Path) -> None:
    command = [NODE, PACKAGES / "server-memory/dist/index.js"]
    peer = Stdio(corpus, "memory", LEGACY, command, folder, MEMORY_FILE_PATH=str(folder / "memory.jsonl"))
    peer.initialize()
    peer.ask("tools/list", keep="tools-list")
    ada = {"name": "Ada", "entityType": "person", "observations": ["wrote notes", "ünï©ode"]}
    peer.ask("tools/call", {"name": "create_entities", "arguments": {"entities": [ada]}}, "call-created")
    peer.ask("tools/call", {"name": "read_graph", "arguments": {}}, "call-graph")
    peer.close()


def clock(corpus: Corpus, folder: Path) -> None:
    for revision in (LEGACY, MODERN):
        peer = Stdio(corpus, "time", revision, [PYTHON, "-m", "mcp_server_time", "--local-timezone", "Etc/UTC"], folder)
        if revision == MODERN:
            peer.ask("server/discover", keep="discover")
        else:
            peer.initialize()
        peer.ask("tools/list", keep="tools-list")
        convert = {"source_timezone": "Europe/Oslo", "time": "12:30", "target_timezone": "Asia/Tokyo"}
        peer.ask("tools/call", {"name": "convert_time", "arguments": convert}, "call")
        peer.ask("tools/call", {"name": "get_current_time", "arguments": {"timezone": "Moon/Tycho"}}, "call-failed")
        peer.close()


def fastmcp_legacy(corpus: Corpus, folder: Path) -> None:
    peer = Stdio(corpus, "fastmcp", LEGACY, [PYTHON, SERVERS / "fastmcp_server.py"], folder)
    peer.answers = {"roots/list": roots(folder), "sampling/createMessage": a_line, "elicitation/create": accept(dish="soup")}
    peer.initialize()
    fastmcp_common(peer)
    peer.hear("elicitation/create", "ask-elicitation-form")
    peer.hear("sampling/createMessage", "ask-sampling")
    peer.hear("roots/list", "ask-roots")
    peer.ask("tools/list", {"_meta": MODERN_ENVELOPE}, "error-modern-on-legacy")
    peer.close()


MODERN_ENVELOPE = {
    PREFIX + "protocolVersion": MODERN,
    PREFIX + "clientInfo": CLIENT,
    PREFIX + "clientCapabilities": MODERN_CAPABILITIES,
}


def fastmcp_modern(corpus: Corpus, folder: Path) -> None:
    peer = Stdio(corpus, "fastmcp", MODERN, [PYTHON, SERVERS / "fastmcp_server.py"], folder)
    peer.ask("server/discover", keep="discover", sent="server-discover")
    fastmcp_common(peer)
    fastmcp_rounds(peer, folder)
    peer.ask("ping", keep="error-ping-is-gone")
    peer.ask("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, "error-no-listen")
    initialize = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": CLIENT}
    peer.ask("initialize", initialize, "error-initialize-is-gone")
    peer.ask("tools/list", {"_meta": {}}, "error-unknown-version", **{PREFIX + "protocolVersion": "1900-01-01"})
    peer.ask("tools/call", {"name": "order", "arguments": {}, "requestState": "v1.made-up"}, "error-request-state")
    peer.close()


def fastmcp_rounds(peer: Peer, folder: Path) -> None:
    """Calls that need an answer of ours: the result that asks, and the result of the retry."""
    rounds = [
        ("order", {}, {"action": "accept", "content": {"dish": "soup", "portions": 2}}),
        ("compose", {"topic": "herons"}, a_line({})),
        ("where", {}, roots(folder)({})),
    ]
    for tool, arguments, answer in rounds:
        call = {"name": tool, "arguments": arguments}
        asked = peer.ask("tools/call", call, f"input-required-{tool}")["result"]
        again = {**call, "inputResponses": {tool: answer}, "requestState": asked["requestState"]}
        peer.ask("tools/call", again, f"call-{tool}-answered", sent=f"retry-{tool}")
    asked = peer.ask("tools/call", {"name": "order", "arguments": {}})["result"]
    declined = {"inputResponses": {"order": {"action": "decline"}}, "requestState": asked["requestState"]}
    peer.ask("tools/call", {"name": "order", "arguments": {}, **declined}, "call-order-declined")


def fastmcp_common(peer: Peer) -> None:
    """What is said in the same words in both eras, and answered in different ones."""
    modern = peer.revision == MODERN
    peer.ask("tools/list", keep="tools-list", sent="tools-list")
    peer.ask("prompts/list", keep="prompts-list")
    peer.ask("resources/list", keep="resources-list")
    peer.ask("resources/templates/list", keep="templates-list")

    def call(tool: str, arguments: Message, keep: str, **meta: Any) -> None:
        sent = "tools-call-progress" if meta else ""
        peer.ask("tools/call", {"name": tool, "arguments": arguments}, keep, sent, **meta)

    level = {PREFIX + "logLevel": "info"} if modern else {}
    call("add", {"a": 2, "b": 3}, "call-structured")
    call("echo", {"value": {"large": 2**70, "small": -1e-300, "nested": [None, True, {"": ""}]}}, "call-large-numbers")
    call("count", {"steps": 2}, "call-count", progressToken="count-1", **level)
    peer.hear("notifications/progress", "progress")
    peer.hear("notifications/message", "log")
    call("picture", {}, "call-picture")
    call("fail", {"reason": "no reason"}, "call-failed")
    call("add", {"a": "two"}, "call-invalid-arguments")
    call("no-such-tool", {}, "call-unknown-tool")
    call("grow", {"name": "leaf"}, "call-grow")
    peer.hear("notifications/tools/list_changed", "tools-list-changed")
    if not modern:
        call("order", {}, "call-after-elicitation")
        call("compose", {"topic": "herons"}, "call-after-sampling")
        call("where", {}, "call-after-roots")
    peer.ask("resources/read", {"uri": "demo://greeting"}, "read-text")
    peer.ask("resources/read", {"uri": "demo://dot.png"}, "read-blob")
    peer.ask("resources/read", {"uri": "demo://square/12"}, "read-template")
    peer.ask("resources/read", {"uri": "demo://nowhere"}, "error-resource-not-found")
    peer.ask("prompts/get", {"name": "letter", "arguments": {"to": "Ada"}}, "prompt")
    peer.ask("prompts/get", {"name": "no-such-prompt"}, "error-prompt-unknown")
    reference = {"ref": {"type": "ref/prompt", "name": "letter"}, "argument": {"name": "mood", "value": "f"}}
    peer.ask("completion/complete", reference, "completion")
    peer.ask("no/such/method", keep="error-method-not-found")


def fastmcp_over_http(corpus: Corpus, folder: Path) -> None:
    with Listener([PYTHON, SERVERS / "fastmcp_server.py", "--transport", "http"], folder) as port:
        legacy = Http(corpus, "fastmcp-http", LEGACY, port)
        legacy.answers = {"elicitation/create": accept(dish="soup")}
        legacy.initialize()
        legacy.ask("tools/call", {"name": "order", "arguments": {}}, "call-after-elicitation")
        legacy.hear("elicitation/create", "ask-elicitation-form")
        legacy.close()

        modern = Http(corpus, "fastmcp-http", MODERN, port)
        modern.ask("server/discover", keep="discover")
        modern.ask("tools/call", {"name": "count", "arguments": {"steps": 1}}, "call-count", progressToken=1)
        modern.hear("notifications/progress", "progress")
        modern.ask("tools/call", {"name": "order", "arguments": {}}, "input-required-order")
        modern.headers = {"Mcp-Name": "subtract"}
        modern.ask("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}, "error-header-mismatch")
        modern.headers = {"MCP-Protocol-Version": "1900-01-01"}
        modern.ask("tools/list", keep="error-unknown-version", **{PREFIX + "protocolVersion": "1900-01-01"})


def python_sdk(corpus: Corpus, folder: Path) -> None:
    command = [PYTHON, SERVERS / "python_sdk_server.py"]
    peer = Stdio(corpus, "python-sdk", MODERN, command, folder)
    peer.ask("server/discover", keep="discover")
    peer.ask("tools/list", keep="tools-list-with-headers")
    python_sdk_watch(peer)
    peer.ask("resources/read", {"uri": "note://only"}, "read-text")
    peer.ask("resources/read", {"uri": "note://other"}, "error-resource-not-found")
    peer.close()

    with Listener([*command, "--transport", "http"], folder) as port:
        python_sdk_watch(Http(corpus, "python-sdk-http", MODERN, port))


def python_sdk_watch(peer: Peer) -> None:
    """A listen stream: its acknowledgement, and what it brings."""
    watch = {"notifications": {"toolsListChanged": True, "resourceSubscriptions": ["note://only"]}}
    listen = peer.message("subscriptions/listen", watch, {})
    peer.keep("sent-listen", peer.send(listen))
    peer.hear("notifications/subscriptions/acknowledged", "listen-acknowledged")
    peer.ask("tools/call", {"name": "write", "arguments": {"text": "seen"}})
    peer.hear("notifications/resources/updated", "resource-updated")
    peer.ask("tools/call", {"name": "grow", "arguments": {"name": "branch"}})
    peer.hear("notifications/tools/list_changed", "tools-list-changed")
    if isinstance(peer, Stdio):
        peer.tell("notifications/cancelled", {"requestId": listen["id"]}, sent="listen-cancelled")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("/srv/demo"), help="made, filled and removed again")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True)
    try:
        corpus = Corpus(OUTPUT)
        everything_over_stdio(corpus, folder)
        everything_over_http(corpus, folder)
        everything_over_sse(corpus, folder)
        filesystem(corpus, folder)
        memory(corpus, folder)
        clock(corpus, folder)
        fastmcp_legacy(corpus, folder)
        fastmcp_modern(corpus, folder)
        fastmcp_over_http(corpus, folder)
        python_sdk(corpus, folder)
    finally:
        shutil.rmtree(folder)
    print(f"{corpus.count} messages in {OUTPUT.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
