"""A server that writes each effect to a file of its own, so that what happened is known whatever else was lost.

    witness.py FILE --stdio
    witness.py FILE --listen PORT [--sessions]

A line of the file is an object: `id` of the effect, `session` that the client named, `place` where it happened (process, and
session of this server), `at` in seconds of the monotonic clock. With `--sessions` it issues a session for each connection, as
servers with state over HTTP do.

Tools: `act` and `guarded` do it and answer after `afterMs`. `ask` asks the client first and does it if that accepts. `open` and `click` need
one place: a click is an error where the session was not opened.
"""

import asyncio
import itertools
import json
import os
import sys
import time
import uuid

PROPERTIES = {"id": {"type": "string"}, "session": {"type": "string"}, "afterMs": {"type": "integer"}}
SCHEMA = {"type": "object", "properties": PROPERTIES, "required": ["id"]}
NAMES = ("act", "guarded", "ask", "open", "click")
TOOLS = [{"name": name, "description": name, "inputSchema": SCHEMA} for name in NAMES]
REVISION = "2025-11-25"


class Witness:
    """What one process did, with the clients that it has sessions with."""

    def __init__(self, file):
        self.file = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self.opened = set()

    def write(self, arguments, place):
        line = {"id": arguments["id"], "session": arguments.get("session"), "place": place, "at": time.monotonic()}
        os.write(self.file, (json.dumps(line) + "\n").encode())

    async def answer(self, message, place, ask):
        """The response to a request; `ask` sends a request to the client and gives its result."""
        method = message["method"]
        if method == "initialize":
            result = {"protocolVersion": REVISION, "capabilities": {"tools": {}}}
            result["serverInfo"] = {"name": "witness", "version": "1"}
        elif method == "ping":
            result = {}
        elif method == "tools/list":
            result = {"tools": TOOLS}
        elif method == "tools/call":
            result = await self.call(message["params"], place, ask)
        else:
            return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "unknown method"}}
        return {"jsonrpc": "2.0", "id": message["id"], "result": result}

    async def call(self, params, place, ask):
        name, arguments = params["name"], params["arguments"]
        if name == "ask":
            schema = {"type": "object", "properties": {"sure": {"type": "boolean"}}}
            answer = await ask("elicitation/create", {"message": arguments["id"], "requestedSchema": schema})
            if answer.get("action") != "accept":
                return text(f"declined {arguments['id']}")
        opened = (place, arguments.get("session"))
        if name == "click" and opened not in self.opened:
            return {**text(f"not opened in {place}"), "isError": True}
        if name == "open":
            self.opened.add(opened)
        self.write(arguments, place)
        await asyncio.sleep(arguments.get("afterMs", 0) / 1000)
        return text(f"did {arguments['id']}")


def text(words):
    return {"content": [{"type": "text", "text": words}]}


class Requests:
    """Requests to one client that wait for its answer."""

    def __init__(self):
        self.numbers = itertools.count(1)
        self.open = {}

    async def send(self, method, params, write):
        number = f"asked-{next(self.numbers)}"
        self.open[number] = asyncio.get_running_loop().create_future()
        await write({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        try:
            return await self.open[number]
        finally:
            del self.open[number]

    def receive(self, response):
        waiting = self.open.get(response.get("id"))
        if waiting is not None and not waiting.done():
            waiting.set_result(response.get("result", {}))


# Over stdio.


async def serve_stdio(witness):
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 24)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    requests = Requests()
    place = f"process {os.getpid()}"

    async def write(message):
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()

    async def answer(message):
        await write(await witness.answer(message, place, lambda *words: requests.send(*words, write)))

    # An effect that began is written also if its client has left, as long as this process lives.
    running = set()
    while line := await reader.readline():
        message = json.loads(line)
        if "method" not in message:
            requests.receive(message)
        elif "id" in message:
            task = asyncio.create_task(answer(message))
            running.add(task)
            task.add_done_callback(running.discard)


# Over HTTP.


class HttpWitness:
    def __init__(self, witness, has_sessions):
        self.witness = witness
        self.has_sessions = has_sessions
        self.sessions = {}
        self.without = Requests()
        self.running = set()

    async def serve(self, reader, writer):
        try:
            while await self.one_request(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError, ValueError):
            pass
        finally:
            writer.close()

    async def one_request(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method = head[0].split(" ")[0]
        headers = dict(line.lower().split(": ", 1) for line in head[1:] if ": " in line)
        # Session ids are compared as they were sent.
        session = next((line.split(": ", 1)[1] for line in head if line.lower().startswith("mcp-session-id:")), None)
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        if method != "POST":
            if method == "DELETE":
                self.sessions.pop(session, None)
            plain(writer, 200 if method == "DELETE" else 405)
            return True
        message = json.loads(body)
        extra = {}
        if message.get("method") == "initialize" and self.has_sessions:
            session = uuid.uuid4().hex
            self.sessions[session] = Requests()
            extra = {"Mcp-Session-Id": session}
        elif self.has_sessions and session not in self.sessions:
            plain(writer, 404 if session else 400)
            return True
        requests = self.sessions[session] if self.has_sessions else self.without
        if "method" not in message:
            requests.receive(message)
        if "id" not in message or "method" not in message:
            plain(writer, 202)
            return True
        await self.stream(message, requests, f"process {os.getpid()} session {session}", extra, writer)
        return True

    async def stream(self, message, requests, place, extra, writer):
        start(writer, 200, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked", **extra})

        async def write(event):
            data = f"event: message\ndata: {json.dumps(event)}\n\n".encode()
            writer.write(b"%x\r\n%s\r\n" % (len(data), data))
            await writer.drain()

        answering = self.witness.answer(message, place, lambda *words: requests.send(*words, write))
        # An effect that began is written also if its client has left.
        task = asyncio.create_task(answering)
        self.running.add(task)
        task.add_done_callback(self.running.discard)
        await write(await task)
        writer.write(b"0\r\n\r\n")
        await writer.drain()


def start(writer, status, headers):
    lines = [f"HTTP/1.1 {status} status", *(f"{name}: {value}" for name, value in headers.items())]
    writer.write("\r\n".join([*lines, "", ""]).encode())


def plain(writer, status):
    start(writer, status, {"Content-Length": 0})


async def serve_http(witness, port, has_sessions):
    http = HttpWitness(witness, has_sessions)
    server = await asyncio.start_server(http.serve, "127.0.0.1", port)
    async with server:
        print("listening", flush=True)
        await server.serve_forever()


def main(words):
    match words:
        case [file, "--stdio"]:
            asyncio.run(serve_stdio(Witness(file)))
        case [file, "--listen", port, *rest] if rest in ([], ["--sessions"]):
            asyncio.run(serve_http(Witness(file), int(port), bool(rest)))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
