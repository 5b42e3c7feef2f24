"""Servers that require sign-in, with the authorization servers of the official Python SDK and of `fastmcp`.

    protected_python.py sdk         prints `listening on http://127.0.0.1:PORT/mcp`
    protected_python.py sdk-2025    the same without protected resource metadata, as servers of 2025-03-26
    protected_python.py fastmcp

Endpoints, client authentication and metadata are those of the library; `fastmcp`'s provider keeps codes and tokens in
memory and agrees to everything.
"""

import argparse
import socket
import warnings

import uvicorn
from fastmcp import FastMCP
from fastmcp.server.auth.providers.in_memory import InMemoryOAuthProvider
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import MCPServer

warnings.simplefilter("ignore")

SCOPES = ["notes"]
REGISTRATION = ClientRegistrationOptions(enabled=True, valid_scopes=SCOPES, default_scopes=SCOPES)


def hello() -> str:
    """Greet the caller."""
    return "hello"


def sdk(origin: str, resource: str | None):
    auth = AuthSettings(
        issuer_url=origin,
        resource_server_url=resource,
        required_scopes=SCOPES,
        client_registration_options=REGISTRATION,
    )
    provider = InMemoryOAuthProvider(base_url=origin, client_registration_options=REGISTRATION)
    server = MCPServer("protected-python-sdk", auth_server_provider=provider, auth=auth)
    server.add_tool(hello, name="hello")
    return server.streamable_http_app()


def fastmcp(origin: str):
    provider = InMemoryOAuthProvider(
        base_url=origin, required_scopes=SCOPES, client_registration_options=REGISTRATION
    )
    server = FastMCP("protected-fastmcp", auth=provider)
    server.tool(hello)
    return server.http_app(path="/mcp")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", choices=["sdk", "sdk-2025", "fastmcp"])
    library = parser.parse_args().library
    listener = socket.create_server(("127.0.0.1", 0))
    origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
    if library == "fastmcp":
        app = fastmcp(origin)
    else:
        app = sdk(origin, f"{origin}/mcp" if library == "sdk" else None)
    print(f"listening on {origin}/mcp", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])


if __name__ == "__main__":
    main()
