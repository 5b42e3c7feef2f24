"""A `toolway serve` of its own home, as one of several over one database."""

import asyncio
import json
import os
import signal
import subprocess

START = 60
END = 60


class Gateway:
    def __init__(self, name, program, home, variables):
        self.name = name
        self.program = program
        self.home = home
        self.variables = variables
        self.process = None
        self.port = None

    def environment(self):
        path = f"{os.path.dirname(self.program)}:/usr/bin:/bin"
        return {"HOME": str(self.home), "PATH": path, "LANG": "C.UTF-8", **self.variables}

    def configure(self, config):
        file = self.home / ".config/toolway/toolway.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(config))

    def command(self, *words):
        """Runs a command of the program in this home and returns what it printed."""
        done = subprocess.run(
            [self.program, *words], cwd=self.home, env=self.environment(), stdin=subprocess.DEVNULL,
            capture_output=True, text=True,
        )
        if done.returncode != 0:
            raise RuntimeError(f"toolway {' '.join(words)}: {done.stdout}{done.stderr}")
        return done.stdout

    async def start(self, port):
        """Starts it at this port and waits until it listens."""
        self.port = port
        words = ["serve", "--listen", f"127.0.0.1:{port}", "--console", "off", "--log", "off", "--output", "json"]
        log = open(self.home.parent / f"gateway-{self.name}.log", "ab")
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig=KILL", "--", self.program, *words], cwd=self.home, env=self.environment(),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
        )
        log.close()
        line = await asyncio.wait_for(asyncio.to_thread(self.process.stdout.readline), START)
        if not line:
            log = (self.home.parent / f"gateway-{self.name}.log").read_text()
            raise RuntimeError(f"gateway {self.name} ended at its start: {log[-3000:]}")
        return json.loads(line)

    def signal(self, number):
        self.process.send_signal(number)

    async def kill(self):
        self.process.kill()
        await self.ended()

    async def terminate(self):
        """An orderly end, as of a rolling restart."""
        self.process.send_signal(signal.SIGTERM)
        code = await self.ended()
        if code != 0:
            raise RuntimeError(f"gateway {self.name} ended with {code} after SIGTERM")

    async def ended(self):
        code = await asyncio.wait_for(asyncio.to_thread(self.process.wait), END)
        self.process.stdout.close()
        self.process = None
        return code
