"""The server leg: the suite is the client of whatever serves at an address.

Each run is a name, a requirement set and whatever has to be started for it; `RUNS` lists them. The direct runs are the
control: what does not pass there is the fixture's fault, not that of whatever stands in front of it.
"""

import contextlib
import itertools
import json
import os
import subprocess
import tempfile
from pathlib import Path

import suite

EXPECTED = Path(__file__).with_name("expected.json")

# All scenarios of one set take some 10 seconds.
PATIENCE = 180


@contextlib.contextmanager
def direct(programs, era):
    """The fixture server of one era on a port; gives its address."""
    words = [programs / "conformance-server", "--era", era, "--listen", "127.0.0.1:0"]
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as server:
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


@contextlib.contextmanager
def through(programs, era, way):
    """A gateway with the fixture server of one era behind it, on a port or as a process; gives where that server is."""
    with contextlib.ExitStack() as stack:
        home = stack.enter_context(tempfile.TemporaryDirectory())
        if way == "http":
            entry = {"type": "http", "url": stack.enter_context(direct(programs, era))}
        else:
            words = ["--era", era, "--stdio"]
            entry = {"command": str(programs / "conformance-server"), "args": words}
        config = Path(home, "toolway.json")
        config.write_text(json.dumps({"gateway": {"access": "open"}, "mcpServers": {"fixture": entry}}))
        words = [programs / "toolway", "serve", "--config", config, "--listen", "127.0.0.1:0", "--output", "json"]
        # Its log of calls would stand between the verdicts.
        words += ["--log", "off"]
        # Without the servers and keys of the user who runs this.
        environment = {"HOME": home, "PATH": os.environ.get("PATH", "")}
        gateway = subprocess.Popen(
            words, cwd=home, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        )
        try:
            listening = json.loads(gateway.stdout.readline())["listening"]
            yield listening.removesuffix("/mcp") + "/servers/fixture/mcp"
        finally:
            gateway.terminate()
            gateway.wait()


def runs():
    """A run's name: its requirement set, and what gives the address when it is given the folder of our programs."""
    for era in suite.REVISIONS:
        yield f"direct {era}", (era, lambda programs, era=era: direct(programs, era))
    for set_, era, way in itertools.product(suite.REVISIONS, suite.REVISIONS, ["http", "stdio"]):
        start = lambda programs, era=era, way=way: through(programs, era, way)  # noqa: E731
        yield f"{set_} to {era} over {way}", (set_, start)


RUNS = dict(runs())


def main(words):
    if words and words[0].startswith("http"):
        url, revision = words
        return suite.total("server", run(url, url, revision))
    unknown = [word for word in words if word not in RUNS]
    if unknown:
        raise SystemExit(f"tests/conformance/run: no run `{unknown[0]}`; there are {', '.join(RUNS)}")
    programs = suite.build()
    verdicts = []
    for name in words or RUNS:
        revision, start = RUNS[name]
        with start(programs) as url:
            verdicts += run(name, url, revision)
    return suite.total("server", verdicts)


def run(name, url, revision):
    """Runs a requirement set against an address; gives a verdict for each of its scenarios."""
    expected = json.loads(EXPECTED.read_text())
    expected = {**expected.get("*", {}), **expected.get(name, {})}
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["server", "--url", url, "--requirements", revision, "--output-dir", folder]
        try:
            done = suite.command(arguments, folder, PATIENCE)
        except subprocess.TimeoutExpired:
            return [suite.report(name, "*", [f"the suite did not end within {PATIENCE} s"], 0)]
        verdicts = []
        for scenario in suite.scenarios(revision, "server"):
            problems, passed = judge(Path(folder), scenario, expected.get(scenario, {}))
            verdicts.append(suite.report(name, scenario, problems, passed))
    if not any(verdicts):
        print(done.stdout[-2000:] + done.stderr[-2000:])
    return verdicts


def judge(folder, scenario, expected):
    """What is wrong in a scenario beyond what is expected to be, and how many of its checks passed.

    `expected` names checks and says why they cannot pass; a scenario without a check that can has the name `""`. One that
    passes after all is a problem too, so that the list says no more than is so.
    """
    reports = [path for path in folder.glob(f"server-{scenario}-*/checks.json") if is_of(path, scenario)]
    if len(reports) != 1:
        return [f"the suite left {len(reports)} reports"], 0
    found, passed = suite.problems(json.loads(reports[0].read_text()))
    problems = [sentence for check, sentence in found if check not in expected]
    seen = {check for check, _ in found}
    problems += [f"`{check}` was expected to fail and did not" for check in expected if check not in seen]
    return problems, passed


def is_of(path, scenario):
    """Whether this report is that scenario's and not that of one whose name is longer: a time follows the name."""
    return path.parent.name.removeprefix(f"server-{scenario}-")[:4].isdigit()
