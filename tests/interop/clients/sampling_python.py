"""The client of the official Python SDK, which declares sampling or does not: lists tools and calls one that asks a model.

    sampling_python.py '{"url", "key", "declares", "mode", "call"}'
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


async def main(plan: dict) -> dict:
    headers = {"authorization": f"Bearer {plan['key']}"}
    async with httpx2.AsyncClient(headers=headers, timeout=20) as http:
        transport = streamable_http_client(plan["url"], http_client=http)
        declared = {"sampling_callback": sampled} if plan["declares"] else {}
        async with Client(transport, mode=plan["mode"], **declared) as client:
            tools = [tool.name for tool in (await client.list_tools()).tools]
            try:
                said = (await client.call_tool(*plan["call"])).content[0].text
            except Exception as error:
                said = f"error: {error}"
    return {"tools": tools, "said": said}


print(json.dumps(asyncio.run(main(json.loads(sys.argv[1])))))
