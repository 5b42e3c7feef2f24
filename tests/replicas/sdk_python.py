"""A load of the official Python SDK: calls until its standard input ends, and prints a line for each call.

    sdk_python.py PLAN

PLAN is JSON: `url`, `key`, `name` of the client, `era`, `servers`, and `asking`: those of
them that ask their client. A line has the fields of `history.Call`, with one attempt.
"""

import asyncio
import itertools
import json
import sys
import time
import warnings

import httpx2
import mcp_types as types
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

warnings.simplefilter("ignore")
# Seconds that a call may take.
PATIENCE = 20
CALLS_OF_A_CONNECTION = 40


async def main(plan):
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), ended.set)
    numbers = itertools.count(1)
    headers = {"authorization": f"Bearer {plan['key']}"}
    while not ended.is_set():
        try:
            async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http:
                transport = streamable_http_client(plan["url"], http_client=http)
                mode = "legacy" if plan["era"] == "2025" else "auto"
                async with Client(transport, mode=mode, elicitation_callback=accept) as client:
                    for _ in range(CALLS_OF_A_CONNECTION):
                        if ended.is_set():
                            break
                        if await call(client, plan, next(numbers)) == "lost":
                            break
        except Exception as error:
            # Begun again: what each call was told is printed already.
            print(f"{plan['name']}: {type(error).__name__}: {error}", file=sys.stderr)
            await asyncio.sleep(0.2)


async def accept(_context, _params):
    return types.ElicitResult(action="accept", content={"sure": True})


async def call(client, plan, number):
    id = f"{plan['name']}-{number}"
    server = plan["servers"][number % len(plan["servers"])]
    tool = "ask" if number % 7 == 0 and server in plan["asking"] else "act"
    told = {"sent": time.monotonic(), "said": "lost", "text": "its connection ended"}
    try:
        arguments = {"id": id, "afterMs": 40 if number % 5 == 0 else 0}
        result = await asyncio.wait_for(client.call_tool(f"{server}__{tool}", arguments), PATIENCE)
        told["said"] = (result.meta or {}).get("toolway/outcome", "answered")
        told["text"] = " ".join(part.text for part in result.content)
    except MCPError as error:
        data = error.data if isinstance(error.data, dict) else {}
        told |= {"said": data.get("outcome", "lost"), "text": str(error)}
    except Exception as error:
        told["text"] = f"{type(error).__name__}: {error}"
    finally:
        # Also if the SDK cancels the call, because its connection has ended.
        told["ended"] = time.monotonic()
        line = {"id": id, "era": f"{plan['era']} python", "server": server, "tool": tool, "attempts": [told]}
        print(json.dumps(line), flush=True)
    return told["said"]


asyncio.run(main(json.loads(sys.argv[1])))
