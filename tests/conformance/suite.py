"""What both legs share: the suite's command, its lists, our programs, and the reading of checks."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / ".interop" / "node_modules" / ".bin"
REVISIONS = ["2025-11-25", "2026-07-28"]


def command(arguments, cwd, patience):
    """Runs the suite."""
    return subprocess.run(
        [PEERS / "node", PEERS / "conformance", *arguments],
        cwd=cwd,
        env={**os.environ, "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=patience,
    )


def scenarios(revision, side):
    """The scenarios of a requirement set for `client` or `server`, scored or not, in the order of the suite."""
    listed = command(["list", "--requirements", revision], ROOT, 60)
    if listed.returncode != 0:
        sys.exit(f"tests/conformance: the suite cannot list {revision}: {listed.stderr.strip()}")
    scored = listed.stdout.partition(f"{side.capitalize()} scenarios")[2].partition("\n\n")[0]
    found = re.findall(r"^ +- (\S+)$", scored, re.MULTILINE)
    found += re.findall(rf"^ +- (\S+) \[{side}\]$", listed.stdout, re.MULTILINE)
    if not found:
        sys.exit(f"tests/conformance: no {side} scenario listed for {revision}")
    return found


def only_of(revision):
    """The scenarios that only this revision has."""
    listed = command(["list"], ROOT, 60).stdout
    found = re.findall(rf"^ +- (\S+) \[{revision}\]$", listed, re.MULTILINE)
    if not found:
        sys.exit(f"tests/conformance: no scenario listed for {revision} alone")
    return found


def build():
    """Our programs, built as `./test` builds everything, so that nothing is built twice; gives their folder."""
    building = ["cargo", "build", "--workspace", "--bins", "--examples", "--locked", "--quiet"]
    if subprocess.run(building, cwd=ROOT).returncode != 0:
        sys.exit("tests/conformance: the programs cannot be built")
    described = ["cargo", "metadata", "--no-deps", "--format-version", "1", "--locked"]
    described = subprocess.run(described, cwd=ROOT, check=True, capture_output=True)
    return Path(json.loads(described.stdout)["target_directory"]) / "debug"


def problems(checks):
    """What is wrong by a scenario's checks, as pairs of check and sentence, and how many of them passed."""
    count = Counter(check["status"] for check in checks)
    found = [(check["id"], describe(check)) for check in checks if check["status"] in ("FAILURE", "WARNING")]
    if count["SUCCESS"] == 0:
        found.append(("", "no check passed"))
    return found, count["SUCCESS"]


def describe(check):
    return f"{check['status']} {check['id']}: {check.get('errorMessage') or check['description']}"


def report(run, scenario, complaints, passed):
    """Prints one scenario's verdict and gives it."""
    print(f"{'FAIL' if complaints else 'ok  '} {run} {scenario}: {passed} checks passed", flush=True)
    for complaint in complaints:
        print(f"     {complaint}", flush=True)
    return not complaints


def total(leg, verdicts):
    print(f"{leg}: {verdicts.count(True)} passed, {verdicts.count(False)} failed", flush=True)
    return bool(verdicts) and all(verdicts)
