"""What happened in a run, in the order in which it was noticed, as lines of JSON that the checker reads."""

import json
import time
from dataclasses import asdict, dataclass, field


@dataclass
class Attempt:
    """One request of a call: when, and what its client was told."""

    sent: float
    ended: float
    said: str
    text: str
    # Approval requests that its client approved.
    approved: int = 0


@dataclass
class Call:
    """A call of the load, with the attempts to make it. `id` is that of its effect; `key` its idempotency key, if any."""

    id: str
    era: str
    server: str
    tool: str
    key: str | None = None
    # The name that the client gives to its session; the effects have it, too.
    session: str | None = None
    attempts: list = field(default_factory=list)


@dataclass
class Fault:
    """A fault. `ends_processes`: after it, the servers that the gateway started may be other processes."""

    name: str
    gateway: str | None
    begun: float
    ended: float
    ends_processes: bool


@dataclass
class Effect:
    """A line of the witness."""

    id: str
    session: str | None
    place: str
    at: float


@dataclass
class Record:
    """A record of the database with the id of the effect in its arguments; absent if they were not recorded."""

    call: str
    effect: str | None
    state: str
    outcome: str | None


@dataclass
class History:
    calls: list = field(default_factory=list)
    faults: list = field(default_factory=list)
    effects: list = field(default_factory=list)
    records: list = field(default_factory=list)
    # Sessions that a client could not go on with, although it had not ended them: session, time and text.
    lost_sessions: list = field(default_factory=list)
    # What `audit verify` printed, if it failed.
    audit: str | None = None

    def write(self, path):
        with open(path, "w") as file:
            for kind in ("faults", "calls", "effects", "records"):
                for entry in getattr(self, kind):
                    file.write(json.dumps({"kind": kind.removesuffix("s"), **asdict(entry)}) + "\n")
            for lost in self.lost_sessions:
                file.write(json.dumps({"kind": "lost session", "what": lost}) + "\n")


def now():
    """Seconds of the clock that the witness uses, too."""
    return time.monotonic()
