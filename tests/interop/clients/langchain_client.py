"""The client of `langchain-mcp-adapters`: lists the tools as LangChain tools, and calls one.

Takes a plan as the other clients do (`url`, `key`, `call`), and prints `client`, `version`, `tools` (their names) and
`called`.

    langchain_client.py <plan>
"""

import asyncio
import json
import sys
from importlib.metadata import version

from langchain_mcp_adapters.client import MultiServerMCPClient


async def main(plan: dict) -> dict:
    headers = {"Authorization": f"Bearer {plan['key']}"}
    client = MultiServerMCPClient({"gw": {"transport": "streamable_http", "url": plan["url"], "headers": headers}})
    tools = {tool.name: tool for tool in await client.get_tools()}
    name, arguments = plan["call"]
    content = await tools[name].ainvoke(arguments)
    return {
        "client": "langchain-mcp-adapters",
        "version": version("langchain-mcp-adapters"),
        "tools": sorted(tools),
        "called": "".join(block["text"] for block in content),
    }


print(json.dumps(asyncio.run(main(json.loads(sys.argv[1])))))
