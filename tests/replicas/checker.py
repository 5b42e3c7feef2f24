"""Joins what clients were told, what was recorded and what the witness did, and finds what does not agree."""

from collections import Counter, defaultdict

from clients import ANSWERED, LOST, NO_SESSION, NOT_SENT, UNKNOWN, UNSAID

# How much of a call a sentence shows.
SHOWN_TEXT = 100
SHOWN_ATTEMPTS = 4
# A gateway says so of a request that it forwarded: the other one may not have received it, and then there is no record.
NOT_RECEIVED = "the gateway that has this call was lost"
OPEN = ("pending", "running")


def check(history):
    """Sentences about what is wrong; none if everything agrees."""
    found = []
    effects = group(history.effects, lambda effect: effect.id)
    records = group(history.records, lambda record: record.effect)
    known = {call.id for call in history.calls}
    for call in history.calls:
        found += check_call(call, effects.get(call.id, []), records.get(call.id, []))
    found += [f"{id}: the witness did what no client asked for" for id in effects if id not in known]
    found += [f"record {record.call} is still `{record.state}`" for record in history.records if record.state in OPEN]
    found += check_places(history)
    found += [f"session {session} was lost: {text}" for session, _, text in history.lost_sessions]
    if history.audit:
        found.append(f"the audit log is not valid: {history.audit}")
    return found


def check_call(call, effects, records):
    attempts = call.attempts
    outcomes = Counter(record.outcome for record in records)
    said = [attempt.said for attempt in attempts]

    def wrong(sentence):
        told = ", ".join(f"{attempt.said} ({attempt.text[:SHOWN_TEXT]})" for attempt in attempts[-SHOWN_ATTEMPTS:])
        return f"{call.id} ({call.era}, {call.server}.{call.tool}, key {call.key}): {sentence}; told: {told}"

    approved = sum(attempt.approved for attempt in attempts)
    if call.tool == "guarded" and len(effects) > approved:
        yield wrong(f"was approved {approved} times and happened {len(effects)} times")
    if len(effects) > 1:
        yield wrong(f"happened {len(effects)} times")
    if ANSWERED in said:
        if not outcomes[ANSWERED]:
            yield wrong(f"was answered and has no record that says so, but {dict(outcomes)}")
        texts = {attempt.text for attempt in attempts if attempt.said == ANSWERED}
        if is_refusal_of_witness(call, texts):
            if effects:
                yield wrong("was not done, as its server said, and happened")
        elif not all(is_answer(call, number, attempt) for number, attempt in enumerate(attempts)):
            yield wrong(f"was answered with {texts}")
        elif not effects:
            yield wrong("was answered and did not happen")
    # An attempt that may have been sent, and may do what it does while the next one is refused.
    may_run = False
    for attempt in attempts:
        if attempt.said == UNSAID:
            yield wrong("an error does not say whether the call was sent")
        elif attempt.said == NOT_SENT and not may_run:
            if any(attempt.sent <= effect.at <= attempt.ended for effect in effects):
                yield wrong("was said not to be sent, and happened meanwhile")
        elif attempt.said == UNKNOWN and not records and NOT_RECEIVED not in attempt.text:
            yield wrong("is unknown and has no record")
        may_run = may_run or attempt.said in (LOST, UNKNOWN)
    if set(said) <= {NOT_SENT, NO_SESSION} and effects:
        yield wrong("was always said not to be sent, and happened")
    if len(attempts) == 1 and len(records) > 1:
        yield wrong(f"was asked for once and has {len(records)} records")
    if effects and not outcomes[ANSWERED] and not outcomes[UNKNOWN]:
        yield wrong(f"happened and its records say {dict(outcomes)}")


def is_answer(call, number, attempt):
    """Whether an attempt that was answered has the answer of its call, or, if it repeats it, says that this is not kept."""
    if attempt.said != ANSWERED or attempt.text == f"did {call.id}":
        return True
    return 0 < number and attempt.text.endswith("was answered; result not kept")


def is_refusal_of_witness(call, texts):
    """Whether the witness answered that it did nothing: a request to the client was not answered, or its state is gone."""
    refusal = {"ask": f"declined {call.id}", "click": "not opened"}.get(call.tool)
    return refusal is not None and len(texts) == 1 and next(iter(texts)).startswith(refusal)


def check_places(history):
    """A server with state sees the calls of a session in one place, until a fault ends that place for good."""
    stateful = {call.id: call for call in history.calls if call.tool in ("open", "click")}
    of_session = defaultdict(list)
    for effect in sorted(history.effects, key=lambda effect: effect.at):
        if effect.id in stateful:
            of_session[effect.session, stateful[effect.id].server].append(effect)
    for (session, _server), effects in of_session.items():
        left = set()
        for before, after in zip(effects, effects[1:]):
            if before.place == after.place:
                continue
            left.add(before.place)
            if after.place in left:
                yield f"session {session} was back in {after.place} after {before.place}"
            elif not any(is_between(fault, before, after) for fault in history.faults):
                yield f"session {session} went from {before.place} to {after.place} without a fault"


    yield from lost_state(history)


def lost_state(history):
    """A click that its server refuses, because the session was not opened there, needs a fault since it was opened."""
    for call in history.calls:
        attempt = call.attempts[-1]
        if call.tool != "click" or not attempt.text.startswith("not opened"):
            continue
        opened = [
            other.attempts[-1].ended
            for other in history.calls
            if (other.tool, other.session, other.server) == ("open", call.session, call.server)
            and other.attempts[-1].ended <= attempt.sent
        ]
        if not any(fault.ends_processes and max(opened) <= fault.ended and fault.begun <= attempt.ended
                   for fault in history.faults):
            yield f"{call.id}: session {call.session} had lost its state at {call.server} without a fault"


def is_between(fault, before, after):
    return fault.ends_processes and fault.begun <= after.at and before.at <= fault.ended


def group(entries, by):
    groups = defaultdict(list)
    for entry in entries:
        groups[by(entry)].append(entry)
    return groups
