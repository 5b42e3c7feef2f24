"""A small server written on the official Python SDK, a peer of the interop tests for features that `fastmcp` lacks.

It serves `subscriptions/listen` (fastmcp 4.1 answers -32601) and header annotations. Like fastmcp it speaks both
eras, and the client chooses with its first request.

    python_sdk_server.py --transport stdio
    python_sdk_server.py --transport http --port 0     prints `listening on http://127.0.0.1:PORT/mcp`
"""

import argparse
import socket
import warnings
from typing import Annotated

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from pydantic import Field

warnings.simplefilter("ignore")

server = MCPServer("python-sdk-peer", version="1.0.0", instructions="Keeps one note that can be watched.")
note = {"text": "nothing yet"}


@server.resource("note://only", mime_type="text/plain")
def only_note() -> str:
    """The note."""
    return note["text"]


@server.tool()
async def write(text: str, ctx: Context) -> str:
    """Write the note and notify its subscribers."""
    note["text"] = text
    await ctx.notify_resource_updated("note://only")
    return "written"


@server.tool()
async def grow(name: str, ctx: Context) -> str:
    """Add a tool and notify the listeners of the list."""

    def grown() -> str:
        return f"I am {name}"

    server.add_tool(grown, name=name)
    await ctx.notify_tools_changed()
    return f"{name} has grown"


@server.tool()
def route(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})], count: int = 1) -> str:
    """Name a region; its argument travels in a header too."""
    return f"{region} x{count}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--transport", choices=["stdio", "http"], default="stdio")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    arguments = parser.parse_args()
    if arguments.transport == "stdio":
        server.run("stdio")
        return
    listener = socket.create_server(("127.0.0.1", arguments.port))
    print(f"listening on http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="warning")).run(sockets=[listener])


if __name__ == "__main__":
    main()
