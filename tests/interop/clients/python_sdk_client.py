"""The client of the official Python SDK: lists, calls, answers server requests, listens.

See `README.md` for the output.

    python_sdk_client.py <plan>
"""

import asyncio
import json
import sys
import warnings
from contextlib import asynccontextmanager
from importlib.metadata import version

import httpx2
import mcp_types as types
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

warnings.simplefilter("ignore")


async def main(plan: dict) -> dict:
    did = {"client": "mcp (Python)", "version": version("mcp")}
    changed = asyncio.Event()

    async def asked(_context, params):
        did["asked"] = params.message
        return types.ElicitResult(action="accept", content=plan["answer"])

    async def sampled(_context, params):
        text = types.TextContent(type="text", text=f"heard {params.messages[0].content.text}")
        return types.CreateMessageResult(role="assistant", content=text, model="none")

    async def told(message):
        if isinstance(message, types.ToolListChangedNotification):
            changed.set()

    headers = {"authorization": f"Bearer {plan['key']}"} if plan["key"] else {}
    async with httpx2.AsyncClient(headers=headers, timeout=20) as http:
        client = Client(
            streamable_http_client(plan["url"], http_client=http),
            mode=plan["mode"],
            elicitation_callback=asked,
            sampling_callback=sampled,
            message_handler=told,
        )
        async with client:
            did["revision"] = client.protocol_version
            did["tools"] = len((await client.list_tools()).tools)
            did["called"] = text(await client.call_tool(*plan["call"]))
            did["elicited"] = text(await client.call_tool(*plan["elicit"]))
            did["sampled"] = text(await client.call_tool(*plan["sample"]))
            async with listening(client, plan["watch"], changed) as kind:
                did["subscribed"] = kind
                if plan["change"]:
                    await client.call_tool(*plan["change"])
                    await asyncio.wait_for(changed.wait(), 10)
                    did["changed"] = True
    return did


@asynccontextmanager
async def listening(client: Client, watched: str, changed: asyncio.Event):
    """Subscribes in the form of the revision: with a listen request, or to a resource on the stream of the session."""
    if client.protocol_version < "2026":
        await client.subscribe_resource(watched)
        yield "resources/subscribe"
        await client.unsubscribe_resource(watched)
        return
    async with client.listen(tools_list_changed=True, resource_subscriptions=[watched]) as heard:

        async def hear():
            async for _event in heard:
                changed.set()

        hearing = asyncio.create_task(hear())
        yield "subscriptions/listen"
        hearing.cancel()


def text(result) -> str:
    return result.content[0].text


print(json.dumps(asyncio.run(main(json.loads(sys.argv[1])))))
