"""A Postgres server of its own in a temporary folder, on loopback."""

import asyncio
import os
import pwd
import shutil
import signal
import subprocess
from pathlib import Path

USER = "toolway"
# The user that runs the server where the tests run as root, which Postgres refuses.
SYSTEM_USER = "postgres"
# Nothing needs to survive a loss of the machine, but everything an end of the server: commits are written, not synced.
SETTINGS = [
    "fsync=off",
    "full_page_writes=off",
    "max_connections=300",
    "shared_buffers=64MB",
    "listen_addresses=127.0.0.1",
]
START = 60


class Postgres:
    def __init__(self, folder, port):
        self.folder = folder
        self.port = port
        self.process = None

    def url(self, port=None, database=USER):
        return f"postgres://{USER}@127.0.0.1:{port or self.port}/{database}?sslmode=disable"

    async def create(self):
        """Makes the database and starts the server."""
        self.folder.mkdir()
        if os.geteuid() == 0:
            user = pwd.getpwnam(SYSTEM_USER)
            os.chown(self.folder, user.pw_uid, user.pw_gid)
        words = ["--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--username", USER]
        subprocess.run(
            [*as_user(), program("initdb"), *words, "-D", self.folder / "data"],
            cwd=self.folder,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        await self.start()
        self.query(f"CREATE DATABASE {USER}", database="postgres")

    async def start(self):
        log = open(self.folder.parent / "postgres.log", "ab")
        words = ["-D", self.folder / "data", "-k", self.folder, "-p", str(self.port)]
        for setting in SETTINGS:
            words += ["-c", setting]
        self.process = subprocess.Popen(
            [*as_user(), program("postgres"), *words],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        log.close()
        async with asyncio.timeout(START):
            while not await asyncio.to_thread(self.accepts):
                if self.process.poll() is not None:
                    raise RuntimeError(f"Postgres ended: {(self.folder.parent / 'postgres.log').read_text()[-2000:]}")
                await asyncio.sleep(0.05)

    async def stop(self, how=signal.SIGINT):
        """Ends the server: SIGINT ends its connections first, SIGQUIT does not, and the next start recovers."""
        if self.process is None:
            return
        self.process.send_signal(how)
        await asyncio.to_thread(self.process.wait)
        self.process = None

    def accepts(self):
        done = self.psql("SELECT 1", "postgres")
        return done.returncode == 0

    def query(self, sql, database=USER):
        """The lines of a result without decoration."""
        done = self.psql(sql, database)
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        return done.stdout.splitlines()

    def psql(self, sql, database):
        words = ["--no-psqlrc", "--tuples-only", "--no-align", "--host=127.0.0.1", f"--port={self.port}"]
        words += [f"--username={USER}", f"--dbname={database}", "--command", sql]
        return subprocess.run([program("psql"), *words], capture_output=True, text=True)


def program(name):
    """Debian has the programs of the server outside of the path, in a folder for each version."""
    versions = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(versions[-1]) if versions else shutil.which(name) or name


def as_user():
    """Ends with the process that starts it, and does not run as root."""
    words = ["setpriv", "--pdeathsig=INT"]
    if os.geteuid() == 0:
        words += ["--reuid", SYSTEM_USER, "--regid", SYSTEM_USER, "--clear-groups"]
    return [*words, "--"]
