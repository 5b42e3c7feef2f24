"""Clients of the gateway in both eras, as the load uses them: a call, and what was said about it."""

import itertools

from http_client import Lost, delete, post

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
ACCEPT = "application/json, text/event-stream"
CAPABILITIES = {"elicitation": {"form": {}}}

# What a client was told about one attempt of a call.
ANSWERED, NOT_SENT, UNKNOWN = "answered", "not-sent", "unknown"
# The connection ended, or a proxy answered in place of the gateway: nothing was said.
LOST = "lost"
# An error that does not say whether the call was sent. No gateway may give one.
UNSAID = "unsaid"
# The session is gone.
NO_SESSION = "no-session"


def statement(response):
    """What a response says about its call, and its text."""
    message = response.message
    if message is None:
        return without_message(response)
    if "error" in message:
        error = message["error"]
        said = (error.get("data") or {}).get("outcome")
        # 503 is given before anything is sent.
        said = said or (NOT_SENT if response.status == 503 else NO_SESSION if response.status == 404 else UNSAID)
        return said, error["message"]
    result = message["result"]
    words = " ".join(part.get("text", "") for part in result.get("content", []))
    return (result.get("_meta") or {}).get("toolway/outcome", ANSWERED), words


def without_message(response):
    text = f"{response.status} {response.text[:200]}"
    match response.status:
        # The gateway refuses, or the balancer has no gateway: in both cases before anything is sent.
        case 503:
            return NOT_SENT, text
        case 502 | 504 | 408:
            return LOST, text
        case 404:
            return NO_SESSION, text
    return UNSAID, text


class StatelessClient:
    """A client of 2026, which has no session: each request may go to another gateway."""

    era = "2026"
    session = None

    def __init__(self, url, key):
        self.url = url
        self.key = key
        # Gives the result of an elicitation.
        self.answer = None
        self.numbers = itertools.count(1)

    async def open(self, _timeout):
        pass

    async def close(self, _timeout):
        pass

    async def call(self, tool, arguments, idempotency_key, timeout):
        meta = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientInfo": {"name": "load", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": CAPABILITIES,
        }
        if idempotency_key:
            meta["toolway/idempotencyKey"] = idempotency_key
        params = {"name": tool, "arguments": arguments, "_meta": meta}
        headers = {
            "Authorization": f"Bearer {self.key}",
            "Content-Type": "application/json",
            "Accept": ACCEPT,
            "MCP-Protocol-Version": MODERN,
            "Mcp-Method": "tools/call",
            "Mcp-Name": tool,
        }
        while True:
            message = {"jsonrpc": "2.0", "id": next(self.numbers), "method": "tools/call", "params": params}
            response = await post(self.url, headers, message, timeout)
            result = (response.message or {}).get("result", {})
            if result.get("resultType") != "input_required":
                return statement(response)
            # Any gateway takes the answer.
            params = {**params, "requestState": result.get("requestState")}
            requests = result["inputRequests"]
            params["inputResponses"] = {name: self.answer(request["params"]) for name, request in requests.items()}


class SessionClient:
    """A client of 2025, which has one session over all gateways."""

    era = "2025"

    def __init__(self, url, key):
        self.url = url
        self.key = key
        self.session = None
        self.answer = None
        self.numbers = itertools.count(1)

    def headers(self):
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json", "Accept": ACCEPT}
        if self.session is not None:
            headers |= {"Mcp-Session-Id": self.session, "MCP-Protocol-Version": LEGACY}
        return headers

    async def open(self, timeout):
        """Begins a session."""
        self.session = None
        params = {"protocolVersion": LEGACY, "capabilities": {"elicitation": {}}}
        params["clientInfo"] = {"name": "load", "version": "1"}
        message = {"jsonrpc": "2.0", "id": next(self.numbers), "method": "initialize", "params": params}
        response = await post(self.url, self.headers(), message, timeout)
        session = response.headers.get("mcp-session-id")
        if response.status != 200 or session is None:
            raise Lost(f"no session: {response.status} {response.text[:200]}")
        self.session = session
        message = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        await post(self.url, self.headers(), message, timeout)

    async def close(self, timeout):
        if self.session is not None:
            await delete(self.url, self.headers(), timeout)

    async def call(self, tool, arguments, idempotency_key, timeout):
        params = {"name": tool, "arguments": arguments}
        if idempotency_key:
            params["_meta"] = {"toolway/idempotencyKey": idempotency_key}
        message = {"jsonrpc": "2.0", "id": next(self.numbers), "method": "tools/call", "params": params}

        async def answer(heard):
            if heard.get("method") == "elicitation/create" and "id" in heard:
                answered = {"jsonrpc": "2.0", "id": heard["id"], "result": self.answer(heard["params"])}
                await post(self.url, self.headers(), answered, timeout)

        return statement(await post(self.url, self.headers(), message, timeout, answer))
