"""HTTP/1.1 as a client of the gateway needs it: one request for each connection, JSON or a stream of events."""

import asyncio
import json
from dataclasses import dataclass, field


class Lost(Exception):
    """The connection ended, or a response did not come in time: nothing is known about the request."""


@dataclass
class Response:
    status: int
    headers: dict
    # The response to our message; absent for a response without JSON.
    message: dict | None = None
    text: str = ""
    # How many messages came before it.
    others: list = field(default_factory=list)


async def post(url, headers, message, timeout, on_message=None):
    """Sends a message and reads until its response. `on_message` is awaited for each other message of the stream."""
    try:
        async with asyncio.timeout(timeout):
            return await exchange(url, "POST", headers, message, on_message)
    except (OSError, EOFError, TimeoutError, ValueError) as error:
        raise Lost(f"{type(error).__name__}: {error}") from error


async def delete(url, headers, timeout):
    try:
        async with asyncio.timeout(timeout):
            return await exchange(url, "DELETE", headers, None, None)
    except (OSError, EOFError, TimeoutError, ValueError) as error:
        raise Lost(f"{type(error).__name__}: {error}") from error


async def exchange(url, method, headers, message, on_message):
    address, _, path = url.removeprefix("http://").partition("/")
    host, port = address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=1 << 24)
    try:
        body = b"" if message is None else json.dumps(message).encode()
        lines = [f"{method} /{path} HTTP/1.1", f"Host: {address}", f"Content-Length: {len(body)}", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        await writer.drain()
        return await read(reader, message, on_message)
    finally:
        writer.transport.abort()


async def read(reader, message, on_message):
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    pairs = [line.split(":", 1) for line in head[1:] if ":" in line]
    response = Response(int(head[0].split(" ")[1]), {name.lower(): value.strip() for name, value in pairs})
    chunks = body(reader, response.headers)
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        await read_events(chunks, message, response, on_message)
        return response
    response.text = b"".join([chunk async for chunk in chunks]).decode()
    if response.headers.get("content-type", "").startswith("application/json"):
        response.message = json.loads(response.text)
    return response


async def read_events(chunks, message, response, on_message):
    rest = b""
    async for chunk in chunks:
        rest += chunk
        *events, rest = rest.replace(b"\r\n", b"\n").split(b"\n\n")
        for event in events:
            data = "".join(line[5:].strip() for line in event.decode().split("\n") if line.startswith("data:"))
            if not data:
                continue
            heard = json.loads(data)
            if "method" not in heard and heard.get("id") == message["id"]:
                response.message = heard
                return
            response.others.append(heard)
            if on_message is not None:
                await on_message(heard)
    raise EOFError("the stream ended before the response")


async def body(reader, headers):
    if headers.get("transfer-encoding") == "chunked":
        while length := int((await reader.readline()).split(b";")[0], 16):
            yield await reader.readexactly(length)
            await reader.readline()
        return
    if "content-length" in headers:
        yield await reader.readexactly(int(headers["content-length"]))
        return
    yield await reader.read()
