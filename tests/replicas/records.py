"""Reads what was recorded, through the program and, for the arguments, from the database."""

import json

from history import Effect, Record

ALL = "1000000"


def records(gateway, postgres):
    """The records as `toolway calls list` gives them, with the id of the effect from their arguments."""
    listed = json.loads(gateway.command("calls", "list", "--limit", ALL, "-o", "json"))
    rows = postgres.query("SELECT call, arguments FROM bodies WHERE arguments IS NOT NULL")
    effect = {}
    for row in rows:
        call, arguments = row.split("|", 1)
        effect[call] = json.loads(arguments).get("id")
    return [
        Record(call["id"], effect.get(call["id"]), call["state"], call["outcome"])
        for call in listed
        if call["kind"] == "tool"
    ]


def open_calls(postgres):
    return int(postgres.query("SELECT count(*) FROM calls WHERE state IN ('pending', 'running')")[0])


def effects(file):
    return [Effect(**json.loads(line)) for line in file.read_text().splitlines()]


def audit_problem(gateway):
    """What `audit verify` says if it fails."""
    try:
        gateway.command("audit", "verify")
    except RuntimeError as error:
        return str(error)
    return None
