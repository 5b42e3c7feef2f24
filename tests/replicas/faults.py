"""Faults, in an order and with sizes that a seed decides."""

import asyncio
import signal

from history import Fault, now

# How much later than its lease the calls of a gateway that was killed may be settled, in seconds.
SETTLED = 1.0
# Lease of a process that writes and is not of a cluster, and the time between two looks of others for such processes.
LEASE_ALONE = 15
LOOK_ALONE = 5


class Faults:
    def __init__(self, cluster, random, history):
        self.cluster = cluster
        self.random = random
        self.history = history
        self.lease = cluster.lease or LEASE_ALONE
        # How long open calls of a killed gateway took to be settled, in seconds.
        self.settled = []
        # What a fault itself finds wrong.
        self.problems = []

    def plan(self, rounds):
        """Names of faults; each round has every kind once, in another order."""
        kinds = [self.kill, self.sleep_through_lease, self.nap, self.cut_database, self.slow_database]
        kinds += [self.silence_database, self.restart_postgres, self.rolling_restart]
        if self.cluster.lease is not None:
            kinds += [self.cut_peers, self.slow_peers, self.silence_peers]
        plan = []
        for _ in range(rounds):
            self.random.shuffle(kinds)
            plan += kinds
        return plan

    async def run(self, plan, until=None):
        for fault in plan:
            if until is not None and now() > until:
                break
            await asyncio.sleep(self.random.uniform(0.2, 1.0))
            await fault()

    def gateway(self):
        return self.random.choice(list(self.cluster.gateways.values()))

    def note(self, name, gateway, begun, ends_processes):
        self.history.faults.append(Fault(name, gateway, begun, now(), ends_processes))

    # Of a gateway.

    async def kill(self):
        """Is killed, and started again when its calls are settled by the other one."""
        gateway, begun = self.gateway(), now()
        run = f"(SELECT id FROM runs WHERE pid = {gateway.process.pid})"
        ids = self.cluster.postgres.query(run.strip("()"))
        await gateway.kill()
        await self.until_settled(ids, begun)
        await self.start(gateway)
        self.note("kill", gateway.name, begun, True)

    async def until_settled(self, ids, begun):
        runs = ", ".join(f"'{id}'" for id in ids)
        sql = f"SELECT count(*) FROM calls WHERE state IN ('pending', 'running') AND run IN ({runs})"
        allowed = self.lease + SETTLED + (LOOK_ALONE if self.cluster.lease is None else 0)
        while (await asyncio.to_thread(self.cluster.postgres.query, sql))[0] != "0":
            if now() - begun > allowed + 30:
                self.problems.append(f"calls of a killed gateway were open after {now() - begun:.1f} s")
                return
            await asyncio.sleep(0.1)
        took = now() - begun
        self.settled.append(took)
        # The question itself takes time.
        if took > allowed + 0.5:
            self.problems.append(f"calls of a killed gateway were settled after {took:.1f} s; allowed: {allowed} s")

    async def start(self, gateway):
        await gateway.start(gateway.port)
        await self.cluster.ready(gateway)

    async def sleep_through_lease(self):
        """Is stopped until its lease has expired for certain, and goes on."""
        await self.stopped("sleep through the lease", self.lease + self.random.uniform(1, 3))

    async def nap(self):
        """Is stopped for less than its lease."""
        await self.stopped("nap", self.random.uniform(0.2, self.lease / 3))

    async def stopped(self, name, seconds):
        gateway, begun = self.gateway(), now()
        gateway.signal(signal.SIGSTOP)
        await asyncio.sleep(seconds)
        gateway.signal(signal.SIGCONT)
        await asyncio.sleep(0.5)
        self.note(name, gateway.name, begun, True)

    async def rolling_restart(self):
        """Each gateway ends in order and starts again, one after the other."""
        for gateway in self.cluster.gateways.values():
            begun = now()
            await gateway.terminate()
            await self.start(gateway)
            self.note("restart", gateway.name, begun, True)

    # Between a gateway and the database.

    async def cut_database(self):
        await self.disturb("database cut", self.cluster.to_database, lambda proxy: proxy.cut(), (0.5, 4))

    async def silence_database(self):
        await self.disturb("database silent", self.cluster.to_database, lambda proxy: proxy.silence(), (1, 8))

    async def slow_database(self):
        delay = self.random.uniform(0.005, 0.1)
        await self.disturb("database slow", self.cluster.to_database, lambda proxy: proxy.slow(delay), (1, 3))

    async def restart_postgres(self):
        begun = now()
        how = self.random.choice([signal.SIGINT, signal.SIGQUIT])
        await self.cluster.postgres.stop(how)
        await asyncio.sleep(self.random.uniform(0, 2))
        await self.cluster.postgres.start()
        await asyncio.sleep(1)
        self.note(f"Postgres restarted by {how.name}", None, begun, True)

    # Between gateways.

    async def cut_peers(self):
        await self.disturb("peers cut", self.cluster.to_peer, lambda proxy: proxy.cut(), (0.5, 5))

    async def silence_peers(self):
        await self.disturb("peers silent", self.cluster.to_peer, lambda proxy: proxy.silence(), (1, 8))

    async def slow_peers(self):
        delay = self.random.uniform(0.005, 0.2)
        await self.disturb("peers slow", self.cluster.to_peer, lambda proxy: proxy.slow(delay), (1, 3))

    async def disturb(self, name, proxies, disturb, seconds):
        gateway, begun = self.gateway(), now()
        proxy = proxies[gateway.name]
        disturb(proxy)
        await asyncio.sleep(self.random.uniform(*seconds))
        proxy.heal()
        await asyncio.sleep(0.5)
        self.note(name, gateway.name, begun, True)
