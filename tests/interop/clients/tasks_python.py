"""The client of the official Python SDK with tasks of 2025-11-25: one step of a story with the tasks of a server.

    tasks_python.py '{"url", "key", "step", "call", "task"}'

The SDK has the types of tasks and no methods for them, and it takes no task for an answer to `tools/call`: that request goes
through its dispatcher. The steps are those of `tasks_typescript.mjs`.
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

ENDED = ("completed", "failed", "cancelled")


class Tasks:
    def __init__(self, client: Client, plan: dict):
        self.send = client.session.send_request
        self.client = client
        self.plan = plan
        self.name, self.arguments = plan["call"]

    async def create(self) -> str:
        params = types.CallToolRequestParams(
            name=self.name, arguments=self.arguments, task=types.TaskMetadata(ttl=120_000)
        )
        data = params.model_dump(by_alias=True, mode="json", exclude_none=True)
        made = await self.client.session._dispatcher.send_raw_request("tools/call", data, {})
        return types.CreateTaskResult.model_validate(made, by_name=False).task.task_id

    async def get(self, task: str):
        params = types.GetTaskRequestParams(task_id=task)
        return await self.send(types.GetTaskRequest(params=params), types.GetTaskResult)

    async def result(self, task: str) -> str:
        params = types.GetTaskPayloadRequestParams(task_id=task)
        return (await self.send(types.GetTaskPayloadRequest(params=params), types.CallToolResult)).content[0].text

    async def listed(self) -> list[str]:
        ids, cursor = [], None
        while True:
            params = types.PaginatedRequestParams(cursor=cursor)
            page = await self.send(types.ListTasksRequest(params=params), types.ListTasksResult)
            ids += [task.task_id for task in page.tasks]
            cursor = page.next_cursor
            if cursor is None:
                return ids

    async def walk(self) -> dict:
        task, seen = await self.create(), []
        while (state := await self.get(task)).status not in ENDED:
            seen.append(state.status)
            await asyncio.sleep((state.poll_interval or 500) / 1000)
        return {"task": task, "seen": [*seen, state.status], "listed": await self.listed(), "text": await self.result(task)}

    async def start(self) -> dict:
        return {"task": await self.create()}

    async def find(self) -> dict:
        task = self.plan["task"]
        before = (await self.get(task)).status
        text = await self.result(task)
        return {"before": before, "after": (await self.get(task)).status, "listed": await self.listed(), "text": text}

    async def cancel(self) -> dict:
        task = await self.create()
        params = types.CancelTaskRequestParams(task_id=task)
        cancelled = await self.send(types.CancelTaskRequest(params=params), types.CancelTaskResult)
        return {"task": task, "cancelled": cancelled.status, "after": (await self.get(task)).status}

    async def plain(self) -> dict:
        return {"text": (await self.client.call_tool(self.name, self.arguments)).content[0].text}

    async def list(self) -> dict:
        return {"listed": await self.listed()}


async def main(plan: dict) -> dict:
    headers = {"authorization": f"Bearer {plan['key']}"}
    async with httpx2.AsyncClient(headers=headers, timeout=30) as http:
        transport = streamable_http_client(plan["url"], http_client=http)
        async with Client(transport, mode=plan.get("mode", "legacy")) as client:
            return await getattr(Tasks(client, plan), plan["step"])()


print(json.dumps(asyncio.run(main(json.loads(sys.argv[1])))))
