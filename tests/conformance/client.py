"""The client leg: the suite serves, and `conformance-client` is run once for each scenario."""

import json
import re
import subprocess

import suite

# A revision that is in no requirement set; the suite has scenarios for its servers.
OLDEST = "2025-03-26"

# The suite itself gives a client 30 seconds.
PATIENCE = 60


def main(wanted):
    client = suite.build() / "conformance-client"
    verdicts = []
    for revision in [OLDEST, *suite.REVISIONS]:
        for scenario in scenarios(revision):
            if wanted and scenario not in wanted:
                continue
            problems, passed = run(client, scenario, revision)
            verdicts.append(suite.report(f"client {revision}", scenario, problems, passed))
    return suite.total("client", verdicts)


def scenarios(revision):
    """All scenarios of a revision, scored or not."""
    return suite.only_of(revision) if revision == OLDEST else suite.scenarios(revision, "client")


def run(client, scenario, revision):
    """Runs one scenario; gives what is wrong and how many checks passed."""
    # The suite cuts the command at spaces, so it is named from its own folder. Scenarios of extensions are of no
    # revision, and are run only by force.
    command = ["client", "--command", f"./{client.name}", "--scenario", scenario, "--spec-version", revision, "--force"]
    try:
        done = suite.command([*command, "--verbose"], client.parent, PATIENCE)
    except subprocess.TimeoutExpired:
        return [f"the suite did not end within {PATIENCE} s"], 0
    try:
        checks = json.loads(done.stdout)
    except ValueError:
        return ["the suite reported no checks", *(done.stdout + done.stderr).splitlines()], 0
    found, passed = suite.problems(checks)
    problems = [sentence for _, sentence in found]
    complaint = re.search(r"^Client (?:exited|timed out).*?(?=^Test Results|\Z)", done.stderr, re.MULTILINE | re.DOTALL)
    if complaint:
        problems += [line for line in complaint.group().splitlines() if line]
    if done.returncode != 0 and not problems:
        problems.append(f"the suite left with {done.returncode}")
    return problems, passed
