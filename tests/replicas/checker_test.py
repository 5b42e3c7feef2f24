"""The checker finds each kind of disagreement, and none where there is none."""

import copy
import unittest

from checker import check
from clients import ANSWERED, LOST, NOT_SENT, UNKNOWN, UNSAID
from history import Attempt, Call, Effect, Fault, History, Record


def call(id, *said, tool="act", session=None):
    """A call with an attempt in each second."""
    texts = {ANSWERED: f"did {id}"}
    attempts = [Attempt(second, second + 0.5, word, texts.get(word, word)) for second, word in enumerate(said)]
    return Call(id, "2026", "witness", tool, key=id, session=session, attempts=attempts)


def record(id, outcome, state="succeeded", number=1):
    return Record(f"{id}/{number}", id, state, outcome)


GOOD = History(
    calls=[
        call("answered", ANSWERED),
        call("repeated", LOST, NOT_SENT, ANSWERED),
        call("lost", LOST),
        call("unknown", UNKNOWN),
        call("not sent", NOT_SENT),
        call("opened", ANSWERED, tool="open", session="s"),
        call("clicked", LOST, ANSWERED, tool="click", session="s"),
    ],
    effects=[
        Effect("answered", None, "p1", 0.2),
        Effect("repeated", None, "p1", 2.2),
        Effect("opened", "s", "p1", 0.2),
        Effect("clicked", "s", "p1", 0.3),
    ],
    records=[
        record("answered", "answered"),
        record("repeated", "not-sent", "interrupted"),
        record("repeated", "answered", number=2),
        record("unknown", "unknown", "failed"),
        record("not sent", "not-sent", "refused"),
        record("opened", "answered"),
        record("clicked", "answered"),
    ],
)


class CheckerTest(unittest.TestCase):
    def finds(self, words, change):
        history = copy.deepcopy(GOOD)
        change(history)
        found = check(history)
        self.assertTrue(any(words in sentence for sentence in found), f"{words!r} is not in {found}")

    def test_nothing_is_wrong_where_all_agree(self):
        self.assertEqual(check(GOOD), [])

    def test_an_effect_that_happened_twice(self):
        self.finds("happened 2 times", lambda h: h.effects.append(Effect("answered", None, "p2", 0.3)))

    def test_an_effect_that_was_not_approved(self):
        def change(history):
            history.calls[0].tool = "guarded"

        self.finds("was approved 0 times and happened 1 times", change)
        history = copy.deepcopy(GOOD)
        change(history)
        history.calls[0].attempts[0].approved = 1
        self.assertEqual(check(history), [])

    def test_an_answer_without_an_effect(self):
        self.finds("answered and did not happen", lambda h: h.effects.pop(0))

    def test_an_answer_without_a_record(self):
        self.finds("has no record that says so", lambda h: h.records.pop(0))

    def test_an_answer_whose_record_says_unknown(self):
        def change(history):
            history.records[0].outcome = "unknown"

        self.finds("has no record that says so", change)

    def test_an_answer_of_another_call(self):
        def change(history):
            history.calls[0].attempts[0].text = "did repeated"

        self.finds("was answered with", change)

    def test_a_repetition_that_is_answered_otherwise(self):
        self.finds("was answered with", lambda h: h.calls[0].attempts.append(Attempt(1, 2, ANSWERED, "did it again")))

    def test_an_error_that_says_nothing(self):
        self.finds("does not say whether", lambda h: h.calls.append(call("silent", UNSAID)))

    def test_not_sent_that_happened_meanwhile(self):
        def change(history):
            history.calls[0].attempts.append(Attempt(1, 2, NOT_SENT, "no"))
            history.effects[0].at = 1.5

        self.finds("and happened meanwhile", change)

    def test_not_sent_that_happened_later(self):
        self.finds("was always said not to be sent", lambda h: h.effects.append(Effect("not sent", None, "p1", 9)))

    def test_unknown_without_a_record(self):
        def change(history):
            history.records = [record for record in history.records if record.effect != "unknown"]

        self.finds("is unknown and has no record", change)
        # What was forwarded may not have arrived.
        history = copy.deepcopy(GOOD)
        change(history)
        history.calls[3].attempts[0].text = "the gateway that has this call was lost; outcome unknown"
        self.assertEqual(check(history), [])

    def test_two_records_of_one_request(self):
        self.finds("has 2 records", lambda h: h.records.append(record("answered", "answered", number=2)))

    def test_a_record_that_denies_an_effect(self):
        def change(history):
            history.effects.append(Effect("lost", None, "p1", 0.1))
            history.records.append(record("lost", "not-sent", "interrupted"))

        self.finds("happened and its records say", change)

    def test_an_effect_without_any_record(self):
        self.finds("happened and its records say", lambda h: h.effects.append(Effect("lost", None, "p1", 0.1)))

    def test_an_effect_that_no_client_asked_for(self):
        self.finds("no client asked for", lambda h: h.effects.append(Effect("stray", None, "p1", 0.1)))

    def test_a_record_that_is_still_open(self):
        self.finds("is still `running`", lambda h: h.records.append(record("lost", None, "running")))

    def test_a_session_in_two_places_without_a_fault(self):
        def change(history):
            history.effects[-1].place = "p2"

        self.finds("without a fault", change)
        # With one that ends processes it is expected.
        history = copy.deepcopy(GOOD)
        change(history)
        history.faults.append(Fault("kill", "a", 0.25, 0.28, True))
        self.assertEqual(check(history), [])

    def test_a_session_that_comes_back_to_a_place_that_it_had_left(self):
        def change(history):
            history.faults.append(Fault("kill", "a", 0, 9, True))
            for second, place in enumerate(["p2", "p1"], 1):
                id = f"clicked {second}"
                history.calls.append(call(id, ANSWERED, tool="click", session="s"))
                history.records.append(record(id, "answered"))
                history.effects.append(Effect(id, "s", place, second))

        self.finds("was back in p1", change)

    def test_state_that_was_lost_without_a_fault(self):
        def change(history):
            history.calls[-1].attempts[-1].text = "not opened in p1"
            history.effects.pop()

        self.finds("had lost its state", change)
        history = copy.deepcopy(GOOD)
        change(history)
        history.faults.append(Fault("kill", "a", 0.7, 0.8, True))
        self.assertEqual(check(history), [])

    def test_a_refusal_of_the_server_that_happened(self):
        def change(history):
            history.calls[0].tool = "ask"
            history.calls[0].attempts[0].text = "declined answered"

        self.finds("as its server said, and happened", change)

    def test_a_session_that_was_lost(self):
        self.finds("session s was lost", lambda h: h.lost_sessions.append(["s", 1.0, "404"]))

    def test_an_audit_log_that_is_not_valid(self):
        def change(history):
            history.audit = "entry 7"

        self.finds("audit log is not valid", change)


if __name__ == "__main__":
    unittest.main()
