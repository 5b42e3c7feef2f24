"""The client of the official Python SDK, which declares sampling (`declares`), roots (URIs) and elicitation (values of a form)
or does not: lists tools and calls one that asks.

    answering_python.py '{"url", "key", "declares", "roots", "form", "mode", "call"}'
"""

import asyncio
import json
import sys
import warnings

import httpx2
import mcp_types as types
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

warnings.simplefilter("ignore")


async def sampled(_context, params):
    text = types.TextContent(type="text", text=f"heard {params.messages[0].content.text}")
    return types.CreateMessageResult(role="assistant", content=text, model="none")


def answering(plan: dict) -> dict:
    """The callbacks for what the plan declares."""

    async def listed(_context):
        return types.ListRootsResult(roots=[types.Root(uri=uri) for uri in plan["roots"]])

    async def filled_in(_context, _params):
        return types.ElicitResult(action="accept", content=plan["form"])

    declared = {"sampling_callback": sampled} if plan.get("declares") else {}
    if plan.get("roots") is not None:
        declared["list_roots_callback"] = listed
    if plan.get("form") is not None:
        declared["elicitation_callback"] = filled_in
    return declared


async def main(plan: dict) -> dict:
    headers = {"authorization": f"Bearer {plan['key']}"}
    async with httpx2.AsyncClient(headers=headers, timeout=20) as http:
        transport = streamable_http_client(plan["url"], http_client=http)
        async with Client(transport, mode=plan["mode"], **answering(plan)) as client:
            tools = [tool.name for tool in (await client.list_tools()).tools]
            try:
                said = (await client.call_tool(*plan["call"])).content[0].text
            except Exception as error:
                said = f"error: {error}"
    return {"tools": tools, "said": said}


print(json.dumps(asyncio.run(main(json.loads(sys.argv[1])))))
