"""Clients written by others: programs that use official SDKs, started and read."""

import asyncio
import json
from pathlib import Path

from history import Attempt, Call
from load import ASKING, SERVERS

HERE = Path(__file__).resolve().parent
TREES = HERE.parents[1] / ".interop"
# How long a client may take to end after it was told to, in seconds.
END = 45


class SdkClient:
    """One such program."""

    def __init__(self, name, words, plan, history, log):
        self.name = name
        self.words = words
        self.plan = plan
        self.history = history
        self.log = log

    async def run(self, stop):
        with open(self.log, "ab") as log:
            process = await asyncio.create_subprocess_exec(
                *self.words, json.dumps(self.plan), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )
        reading = asyncio.create_task(self.read(process.stdout))
        await stop.wait()
        process.stdin.close()
        try:
            async with asyncio.timeout(END):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
        await reading

    async def read(self, output):
        while line := await output.readline():
            fields = json.loads(line)
            attempts = [Attempt(**attempt) for attempt in fields.pop("attempts")]
            self.history.calls.append(Call(**fields, attempts=attempts))


def clients(urls, key, history, folder, is_cluster):
    """One client of each SDK in each era."""
    programs = {
        "python": [str(TREES / "venv/bin/python"), "-B", str(HERE / "sdk_python.py")],
        "typescript": [str(TREES / "node_modules/.bin/node"), str(HERE / "sdk_typescript.mjs")],
    }
    made = []
    for language, words in programs.items():
        for era, kind in (("2025", "sessions"), ("2026", "stateless")):
            name = f"{language}{era}"
            url = urls[kind][len(made) % len(urls[kind])]
            plan = {"url": url, "key": key, "name": name, "era": era, "servers": SERVERS}
            # Without a cluster a call that waits for its client goes on at one gateway only.
            plan["asking"] = ASKING if is_cluster or era == "2025" else ()
            made.append(SdkClient(name, words, plan, history, folder / f"client-{name}.log"))
    return made
