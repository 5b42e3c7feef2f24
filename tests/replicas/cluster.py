"""Everything that a run starts: Postgres, witnesses, proxies, gateways and the balancer."""

import asyncio
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

from balancer import Balancer
from fault_proxy import FaultProxy
from gateway import Gateway
from http_client import Lost, exchange
from postgres import Postgres

HERE = Path(__file__).resolve().parent
# The secret of the cluster; at least 32 characters.
SECRET = "only-for-tests-only-for-tests-only-for-tests"
READY = 60


class Cluster:
    """Two gateways. `lease` in seconds; without one they do not know of each other."""

    def __init__(self, folder, program, lease):
        self.folder = folder
        self.program = program
        self.lease = lease
        names = ("a", "b")
        self.ports = dict(zip(names, free_ports(2)))
        self.peer_ports = dict(zip(names, free_ports(2)))
        self.witness_ports = dict(zip(("plain", "sessions"), free_ports(2)))
        database, front, *proxies = free_ports(6)
        self.postgres = Postgres(folder / "postgres", database)
        # Between each gateway and the database, and in front of what each gateway listens on for others.
        self.to_database = {name: FaultProxy(port, database) for name, port in zip(names, proxies)}
        self.to_peer = {name: FaultProxy(port, self.peer_ports[name]) for name, port in zip(names, proxies[2:])}
        self.gateways = {name: self.gateway(name, self.to_database[name].port) for name in names}
        # Runs commands only, past the proxies.
        self.operator = self.gateway("operator", database)
        self.front = front
        self.effects = folder / "effects"
        self.witnesses = []
        self.key = None
        self.metrics_key = None
        self.balancer = None

    def gateway(self, name, database):
        home = self.folder / f"home-{name}"
        home.mkdir()
        variables = {"STORE_URL": self.postgres.url(database), "CLUSTER_KEY": SECRET}
        return Gateway(name, self.program, home, variables)

    async def start(self):
        await self.postgres.create()
        for proxy in (*self.to_database.values(), *self.to_peer.values()):
            await proxy.start()
        self.effects.touch()
        for name, port in self.witness_ports.items():
            self.start_witness(port, ["--sessions"] if name == "sessions" else [])
        for gateway in (*self.gateways.values(), self.operator):
            gateway.configure(self.config(gateway.name))
        self.make_keys()
        for gateway in self.gateways.values():
            await gateway.start(self.ports[gateway.name])
        for gateway in self.gateways.values():
            await self.ready(gateway)
        self.balancer = Balancer(self.folder, self.front, self.metrics_key, self.ports)
        await self.balancer.start()

    def start_witness(self, port, words):
        program = [sys.executable, "-SE", HERE / "witness.py", self.effects, "--listen", str(port), *words]
        witness = subprocess.Popen(
            ["setpriv", "--pdeathsig=KILL", "--", *program], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
        )
        self.witnesses.append(witness)
        if not witness.stdout.readline():
            raise RuntimeError("the witness ended at its start")

    def config(self, name):
        python = [sys.executable, "-SE", str(HERE / "witness.py"), str(self.effects), "--stdio"]
        url = {server: f"http://127.0.0.1:{port}/mcp" for server, port in self.witness_ports.items()}
        config = {
            "store": {"url": "env:STORE_URL"},
            # Its client is asked for an approval.
            "policy": {"rules": [{"match": {"tool": "guarded"}, "then": "ask"}]},
            "mcpServers": {
                # Two keep state for each session of a client; two ask their client and keep nothing.
                "program": {"command": python[0], "args": python[1:], "sharing": "session"},
                "sessions": {"type": "http", "url": url["sessions"], "sharing": "session"},
                "asking": {"command": python[0], "args": python[1:]},
                "plain": {"type": "http", "url": url["plain"]},
            },
        }
        if self.lease is not None and name in self.peer_ports:
            # Others reach it through the proxy.
            address, listen = self.to_peer[name].port, self.peer_ports[name]
            cluster = {"address": f"127.0.0.1:{address}", "listen": f"127.0.0.1:{listen}", "lease": f"{self.lease}s"}
            config["cluster"] = {"key": "env:CLUSTER_KEY", **cluster}
            config["mcpServers"]["plain"]["replicas"] = "each"
        return config

    def make_keys(self):
        """Keys of the load and of the balancer, which are valid at both gateways."""
        add = self.operator.command
        self.key = json.loads(add("clients", "add", "load", "-o", "json"))["key"]
        self.metrics_key = json.loads(add("clients", "add", "balancer", "--scope", "metrics", "-o", "json"))["key"]
        # Keys that are kept in a file are brought to each gateway, as its operator does.
        for file in (self.operator.home / ".local/state/toolway").glob("clients*"):
            for gateway in self.gateways.values():
                target = gateway.home / file.relative_to(self.operator.home)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(file.read_bytes())
                target.chmod(0o600)

    async def ready(self, gateway):
        """Waits until all servers of a gateway can be called."""
        headers = {"Authorization": f"Bearer {self.key}"}
        async with asyncio.timeout(READY):
            while True:
                try:
                    url = f"http://127.0.0.1:{gateway.port}/servers"
                    response = await exchange(url, "GET", headers, None, None)
                    servers = response.message["servers"]
                    if servers and all(server["state"] == "ready" and server["counts"] for server in servers):
                        return
                except (OSError, EOFError, Lost, TypeError, KeyError):
                    pass
                await asyncio.sleep(0.05)

    def urls(self):
        """Where clients connect: to the balancer; without a cluster a session stays at one gateway."""
        front = f"http://127.0.0.1:{self.front}/mcp"
        alone = [f"http://127.0.0.1:{port}/mcp" for port in self.ports.values()]
        return {"stateless": [front], "sessions": [front] if self.lease is not None else alone}

    async def stop(self):
        for gateway in self.gateways.values():
            if gateway.process is not None:
                await gateway.kill()
        if self.balancer is not None:
            self.balancer.stop()
        for proxy in (*self.to_database.values(), *self.to_peer.values()):
            if proxy.server is not None:
                await proxy.close()
        for witness in self.witnesses:
            witness.kill()
            witness.wait()
            witness.stdout.close()
        await self.postgres.stop()


def free_ports(count):
    """Ports that are free now. The system gives out others first, so they stay free until they are used."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def program():
    """The program as `./test` builds it."""
    root = HERE.parents[1]
    folder = os.environ.get("CARGO_TARGET_DIR", root / "target")
    path = Path(os.environ.get("TOOLWAY", Path(folder) / "debug" / "toolway"))
    if not path.exists():
        sys.exit(f"tests/replicas/run: {path} is missing; run `cargo build --bins` first")
    return str(path)
