"""A server of both eras on `fastmcp`, with one tool for each of the two ways in which a tool can ask the client, one
that asks the user to open an address, one that asks a model with its result, and one that asks for the roots.

`pushed` asks with a request of its own, which FastMCP refuses without a session. `by_result` asks with its result, which
FastMCP refuses in a session.

    asking_fastmcp.py --transport stdio
    asking_fastmcp.py --transport http     prints `listening on http://127.0.0.1:PORT/mcp`
"""

import argparse
import socket
from dataclasses import dataclass

import mcp_types as types
from fastmcp import Context, FastMCP

server = FastMCP("asking", version="1.0.0")


@dataclass
class Person:
    """What both forms ask for."""

    name: str


@server.tool
async def pushed(ctx: Context) -> str:
    """Ask for a name with a request."""
    answer = await ctx.elicit("Who are you?", response_type=Person)
    return f"hello {answer.data.name if answer.action == 'accept' else answer.action}"


@server.tool
async def by_result(ctx: Context) -> types.InputRequiredResult | str:
    """Ask for a name with the result."""
    answer = (ctx.input_responses or {}).get("name")
    if answer is not None:
        return f"hello {answer.content['name']}"
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    form = types.ElicitRequestFormParams(message="Who are you?", requested_schema=schema)
    return types.InputRequiredResult(input_requests={"name": types.ElicitRequest(params=form)}, request_state="asked")


@server.tool
async def opened(ctx: Context) -> str:
    """Ask the user to open an address, with a request."""
    answer = await ctx.session.elicit_url("Confirm the payment", "https://pay.example/confirm?cart=7", "cart-7")
    return f"opened: {answer.action}"


@server.tool
async def model_by_result(ctx: Context) -> types.InputRequiredResult | str:
    """Ask a model for a colour with the result."""
    answer = (ctx.input_responses or {}).get("colour")
    if answer is not None:
        return f"{answer.model} said {answer.content.text}"
    asked = types.TextContent(type="text", text="Name a colour")
    message = types.SamplingMessage(role="user", content=asked)
    params = types.CreateMessageRequestParams(messages=[message], max_tokens=50)
    request = types.CreateMessageRequest(params=params)
    return types.InputRequiredResult(input_requests={"colour": request}, request_state="asked")


@server.tool
async def roots(ctx: Context) -> str:
    """Ask for the roots with a request."""
    answer = await ctx.session.list_roots()
    return "\n".join(str(root.uri) for root in answer.roots)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--transport", choices=["stdio", "http"], default="stdio")
    arguments = parser.parse_args()
    if arguments.transport == "stdio":
        server.run("stdio", show_banner=False, log_level="ERROR")
        return
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"listening on http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    server.run("http", show_banner=False, path="/mcp", log_level="ERROR", sockets=[listener])


if __name__ == "__main__":
    main()
