"""A server written on `fastmcp`, a peer of the interop tests.

It speaks both eras, and the client chooses: a connection (over HTTP, a request) that begins with `initialize` is
served as 2025-11-25 or older, one that begins with a request carrying the per-request `_meta` as 2026-07-28. Tools
that ask do so in the way of the era they are called in.

    fastmcp_server.py --transport stdio
    fastmcp_server.py --transport http --port 0     prints `listening on http://127.0.0.1:PORT/mcp`
    fastmcp_server.py --transport sse --port 0      prints `listening on http://127.0.0.1:PORT/sse`
"""

import argparse
import asyncio
import base64
import socket
import warnings
from dataclasses import dataclass

import mcp_types as types
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.tools import ToolResult

# Sampling and roots are deprecated, and are what we are here to test.
warnings.simplefilter("ignore")

MODERN = "2026-07-28"

# A red dot: the smallest PNG that every decoder takes.
PNG = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de"
        "0000000c49444154789c63f8cfc0000003010100c9fe92ef0000000049454e44ae426082"
    )
).decode()

server = FastMCP(
    "fastmcp-peer",
    version="1.0.0",
    instructions="A peer for interop stories: every tool does one thing that can happen in a call.",
)


@dataclass
class Order:
    """What the form of `order` asks for."""

    dish: str
    portions: int = 1


# === tools ===


@server.tool(annotations={"readOnlyHint": True, "title": "Add two numbers"})
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool
def echo(value: dict) -> ToolResult:
    """Give back what came, as text and as structured content."""
    return ToolResult(content=[types.TextContent(type="text", text=str(sorted(value)))], structured_content=value)


@server.tool
async def count(steps: int, ctx: Context) -> str:
    """Count to `steps`, with a progress and a log message for each."""
    for step in range(1, steps + 1):
        await ctx.report_progress(step, steps, f"step {step} of {steps}")
        await ctx.info(f"reached {step}", logger_name="count")
        await asyncio.sleep(0.01)
    return f"counted to {steps}"


@server.tool
async def wait(seconds: float, ctx: Context) -> str:
    """Wait; made to be cancelled."""
    await ctx.info("waiting")
    await asyncio.sleep(seconds)
    return "waited"


@server.tool
def picture() -> ToolResult:
    """A picture, a link and a resource, with structured content that describes them."""
    resource = types.TextResourceContents(uri="demo://greeting", mime_type="text/plain", text="Hello")
    return ToolResult(
        content=[
            types.TextContent(type="text", text="one red dot"),
            types.ImageContent(type="image", data=PNG, mime_type="image/png"),
            types.ResourceLink(type="resource_link", uri="demo://square/7", name="square", mime_type="text/plain"),
            types.EmbeddedResource(type="resource", resource=resource),
        ],
        structured_content={"width": 1, "height": 1, "colour": "red"},
    )


@server.tool
def fail(reason: str) -> str:
    """Fail, as a tool does: with a result that says so."""
    raise ToolError(f"failed as asked: {reason}")


@server.tool
async def order(ctx: Context) -> types.InputRequiredResult | str:
    """Ask the user for a dish with a form."""
    if is_modern(ctx):
        schema = {
            "type": "object",
            "properties": {"dish": {"type": "string"}, "portions": {"type": "integer", "default": 1}},
            "required": ["dish"],
        }
        form = types.ElicitRequestFormParams(message="What shall it be?", requested_schema=schema)
        answer = answered(ctx, "order", types.ElicitRequest(params=form))
        if isinstance(answer, types.InputRequiredResult):
            return answer
        return f"{answer.action}: {answer.content}"
    answer = await ctx.elicit("What shall it be?", response_type=Order)
    return f"{answer.action}: {getattr(answer, 'data', None)}"


@server.tool
async def compose(topic: str, ctx: Context) -> types.InputRequiredResult | str:
    """Ask the caller's model for a line about a topic."""
    message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text=f"One line on {topic}"))
    if is_modern(ctx):
        params = types.CreateMessageRequestParams(messages=[message], max_tokens=50, system_prompt="Be brief")
        answer = answered(ctx, "compose", types.CreateMessageRequest(params=params))
        if isinstance(answer, types.InputRequiredResult):
            return answer
    else:
        answer = await ctx.session.create_message(
            [message], max_tokens=50, system_prompt="Be brief", related_request_id=ctx.request_id
        )
    return f"{answer.model}: {answer.content.text}"


@server.tool
async def where(ctx: Context) -> types.InputRequiredResult | str:
    """Ask for the caller's roots."""
    if is_modern(ctx):
        answer = answered(ctx, "where", types.ListRootsRequest())
        if isinstance(answer, types.InputRequiredResult):
            return answer
    else:
        answer = await ctx.session.list_roots()
    return ", ".join(str(root.uri) for root in answer.roots) or "nowhere"


@server.tool
async def grow(name: str, ctx: Context) -> str:
    """Offer one tool more from now on, and say so."""

    def grown() -> str:
        return f"I am {name}"

    server.tool(grown, name=name)
    await ctx.send_notification(types.ToolListChangedNotification())
    return f"{name} has grown"


def is_modern(ctx: Context) -> bool:
    return ctx.request_context.protocol_version == MODERN


def answered(ctx: Context, key: str, ask: types.InputRequest) -> types.InputResponse | types.InputRequiredResult:
    """The answer to `ask` if this round brings it, else the result that asks for it."""
    answers = ctx.input_responses or {}
    if key in answers:
        return answers[key]
    return types.InputRequiredResult(input_requests={key: ask}, request_state=f"{key}: asked once")


# === resources and prompts ===


@server.resource("demo://greeting", mime_type="text/plain")
def greeting() -> str:
    """A greeting."""
    return "Hello"


@server.resource("demo://dot.png", mime_type="image/png")
def dot() -> bytes:
    """A red dot."""
    return base64.b64decode(PNG)


@server.resource("demo://square/{number}", mime_type="text/plain")
def square(number: int) -> str:
    """The square of a number."""
    return str(number * number)


@server.prompt
def letter(to: str, mood: str = "friendly") -> str:
    """Ask for a letter."""
    return f"Write a {mood} letter to {to}."


@server.completion
def complete(
    reference: types.PromptReference | types.ResourceTemplateReference,
    argument: types.CompletionArgument,
    context: types.CompletionContext | None,
) -> list[str] | None:
    """Moods for the letter, small numbers for the square."""
    if isinstance(reference, types.PromptReference) and argument.name == "mood":
        candidates = ["formal", "friendly", "furious"]
    elif isinstance(reference, types.ResourceTemplateReference):
        candidates = ["1", "2", "3"]
    else:
        return None
    return [candidate for candidate in candidates if candidate.startswith(argument.value)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--transport", choices=["stdio", "http", "sse"], default="stdio")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    arguments = parser.parse_args()
    if arguments.transport == "stdio":
        server.run("stdio", show_banner=False, log_level="WARNING")
        return
    listener = socket.create_server(("127.0.0.1", arguments.port))
    path = "/mcp" if arguments.transport == "http" else "/sse"
    print(f"listening on http://127.0.0.1:{listener.getsockname()[1]}{path}", flush=True)
    server.run(
        arguments.transport,
        show_banner=False,
        path=path,
        host="127.0.0.1",
        log_level="WARNING",
        sockets=[listener],
    )


if __name__ == "__main__":
    main()
