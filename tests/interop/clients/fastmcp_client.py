"""`fastmcp`'s client: lists, calls, answers server requests, gets notifications. See `README.md` for the output.

    fastmcp_client.py <plan>
"""

import asyncio
import json
import sys
import warnings
from importlib.metadata import version

from fastmcp import Client
from fastmcp.client.messages import MessageHandler
from fastmcp.client.transports import StreamableHttpTransport

warnings.simplefilter("ignore")


class Told(MessageHandler):
    """Receives change notifications."""

    def __init__(self):
        super().__init__()
        self.changed = asyncio.Event()

    async def on_tool_list_changed(self, message):
        self.changed.set()


async def main(plan: dict) -> dict:
    did = {"client": "fastmcp", "version": version("fastmcp")}
    told = Told()

    async def asked(message, _response_type, _params, _context):
        did["asked"] = message
        return plan["answer"]

    async def sampled(messages, _params, _context):
        return f"heard {messages[0].content.text}"

    transport = StreamableHttpTransport(plan["url"], auth=plan["key"])
    client = Client(
        transport, mode=plan["mode"], elicitation_handler=asked, sampling_handler=sampled, message_handler=told, timeout=20
    )
    async with client:
        did["revision"] = client.session.protocol_version
        did["tools"] = len(await client.list_tools())
        did["called"] = text(await client.call_tool(*plan["call"]))
        did["elicited"] = text(await client.call_tool(*plan["elicit"]))
        did["sampled"] = text(await client.call_tool(*plan["sample"]))
        # It has no method to subscribe; in a handshake session it still gets change notifications.
        did["subscribed"] = None
        if plan["change"] and did["revision"] < "2026":
            await client.call_tool(*plan["change"])
            await asyncio.wait_for(told.changed.wait(), 10)
            did["changed"] = True
    return did


def text(result) -> str:
    return result.content[0].text


print(json.dumps(asyncio.run(main(json.loads(sys.argv[1])))))
