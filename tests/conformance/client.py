"""The client leg: the suite serves, and `conformance-client` is run once for each scenario."""

import json
import re
import subprocess

import suite

# Scenarios that are not run, by the beginning of their name, and why.
LEFT_OUT = {"auth/": "comes with the authorization issue"}

# The suite itself gives a client 30 seconds.
PATIENCE = 60


def main(wanted):
    client = suite.build() / "conformance-client"
    verdicts = []
    for revision in suite.REVISIONS:
        for scenario in scenarios(revision):
            if wanted and scenario not in wanted:
                continue
            problems, passed = run(client, scenario, revision)
            verdicts.append(suite.report(f"client {revision}", scenario, problems, passed))
    return suite.total("client", verdicts)


def scenarios(revision):
    """The scenarios that are not left out."""
    found = suite.scenarios(revision, "client")
    for start, reason in LEFT_OUT.items():
        left_out = [name for name in found if name.startswith(start)]
        found = [name for name in found if name not in left_out]
        print(f"---  client {revision} {start}*: {len(left_out)} scenarios left out, {reason}", flush=True)
    return found


def run(client, scenario, revision):
    """Runs one scenario; gives what is wrong and how many checks passed."""
    # The suite cuts the command at spaces, so it is named from its own folder.
    command = ["client", "--command", f"./{client.name}", "--scenario", scenario, "--spec-version", revision]
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
