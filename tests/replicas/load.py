"""Clients that call until they are told to stop, and note what they were told."""

import asyncio

from clients import ANSWERED, LOST, NO_SESSION, NOT_SENT, UNKNOWN, SessionClient, StatelessClient
from history import Attempt, Call, now
from http_client import Lost

# How long clients wait for a response, in seconds; one of these for each attempt.
PATIENCE = (3, 8, 30)
# How often a call under a key is tried until its outcome is said.
ATTEMPTS = 12
# Servers that keep state for each session, and servers that ask their client.
STATEFUL = ("program", "sessions")
ASKING = ("asking", "plain")
SERVERS = (*STATEFUL, *ASKING)
# Calls of a session before its client ends it and begins another one.
CALLS_OF_A_SESSION = 60


class Client:
    """One client of the load, with its own random choices."""

    def __init__(self, number, wire, random, history, is_cluster):
        self.number = number
        self.wire = wire
        self.random = random
        self.history = history
        # Whether any gateway goes on with a session, and with a call that waits for its client.
        self.is_cluster = is_cluster
        # Answers elicitations.
        self.wire.answer = self.answer
        self.approved = 0
        self.calls = 0
        self.sessions = 0
        self.session = None
        self.opened = set()

    async def run(self, stop):
        """Calls until `stop` is set. Its last session stays open; the others are ended."""
        while not stop.is_set():
            if self.wire.era == "2025" and (self.session is None or self.calls % CALLS_OF_A_SESSION == 0):
                await self.begin_session(stop)
            self.calls += 1
            await self.call_once(stop)
            await asyncio.sleep(self.random.uniform(0.01, 0.08))

    async def begin_session(self, stop):
        try:
            await self.wire.close(10)
        except Lost:
            pass
        while not stop.is_set():
            try:
                await self.wire.open(10)
                break
            except Lost:
                await asyncio.sleep(0.1)
        self.sessions += 1
        self.session = f"{self.number}/{self.sessions}"
        self.opened = set()

    async def call_once(self, stop):
        server = self.random.choice(SERVERS)
        tool = self.tool(server)
        id = f"{self.number}-{self.calls}"
        key = f"key-{id}" if self.random.random() < 0.8 else None
        call = Call(id, self.wire.era, server, tool, key, self.session)
        arguments = {"id": id, "afterMs": self.random.choice([0, 0, 0, 5, 40, 400])}
        if self.session is not None:
            arguments["session"] = self.session
        self.history.calls.append(call)
        while True:
            attempt = await self.attempt(call, arguments)
            call.attempts.append(attempt)
            if attempt.said == NO_SESSION:
                await self.replace_session(attempt, stop)
            if not self.goes_on(call, attempt):
                break
            await asyncio.sleep(self.random.uniform(0.05, 0.3))
        self.note_opened(call)

    def tool(self, server):
        if self.random.random() < 0.5:
            return "act"
        if server in ASKING:
            asking = self.random.choice(["ask", "guarded"])
            return asking if self.is_cluster or self.session is not None else "act"
        if self.session is None:
            return "act"
        return "click" if server in self.opened else "open"

    def answer(self, params):
        """Accepts what servers ask, and approves four of five calls."""
        if "allow" not in params["requestedSchema"]["properties"]:
            return {"action": "accept", "content": {"sure": True}}
        if self.random.random() < 0.2:
            return {"action": "decline"}
        self.approved += 1
        return {"action": "accept", "content": {"allow": True}}

    async def attempt(self, call, arguments):
        sent = now()
        self.approved = 0
        try:
            timeout = self.random.choice(PATIENCE)
            said, text = await self.wire.call(f"{call.server}__{call.tool}", arguments, call.key, timeout)
        except Lost as lost:
            said, text = LOST, str(lost)
        return Attempt(sent, now(), said, text, self.approved)

    async def replace_session(self, attempt, stop):
        if self.is_cluster:
            self.history.lost_sessions.append([self.session, attempt.ended, attempt.text])
        await self.begin_session(stop)

    def goes_on(self, call, attempt):
        """Whether the call is tried again."""
        if len(call.attempts) >= ATTEMPTS or call.tool in ("open", "click"):
            return False
        match attempt.said:
            case said if said in (NOT_SENT, NO_SESSION):
                return True
            case said if said == LOST:
                return call.key is not None
            # What is known stays known, and is not done again.
            case said if said in (ANSWERED, UNKNOWN):
                return call.key is not None and self.random.random() < 0.1
        return False

    def note_opened(self, call):
        last = call.attempts[-1]
        if call.tool == "open" and last.said == ANSWERED:
            self.opened.add(call.server)
        elif call.tool == "click" and last.text.startswith("not opened"):
            self.opened.discard(call.server)


def clients(urls, key, random, history, is_cluster):
    """Clients of both eras; `urls` of those with a session and of those without are taken in turn."""
    made = []
    for number in range(4):
        wire = StatelessClient(urls["stateless"][number % len(urls["stateless"])], key)
        made.append(Client(f"a{number}", wire, type(random)(random.random()), history, is_cluster))
        wire = SessionClient(urls["sessions"][number % len(urls["sessions"])], key)
        made.append(Client(f"b{number}", wire, type(random)(random.random()), history, is_cluster))
    return made
