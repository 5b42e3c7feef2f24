"""HAProxy in front of the gateways: round robin, without stickiness."""

import asyncio
import subprocess

# A request is tried again at another gateway only if no connection could be made, so before a byte of it was sent.
CONFIG = """
global
    maxconn 2000
defaults
    mode http
    timeout connect 1s
    timeout client 120s
    timeout server 120s
    timeout check 500ms
    retries 3
    retry-on conn-failure
    option redispatch 1
frontend clients
    bind 127.0.0.1:{port}
    default_backend gateways
backend gateways
    balance roundrobin
    option httpchk
    http-check send meth GET uri /ready ver HTTP/1.1 hdr Host 127.0.0.1 hdr Authorization "Bearer {key}"
    default-server check inter 200ms fall 2 rise 1
{servers}
"""


class Balancer:
    def __init__(self, folder, port, key, gateways):
        """`gateways`: name and port of each. `key`: one of scope `metrics`, to ask for `/ready`."""
        self.folder = folder
        self.port = port
        lines = [f"    server {name} 127.0.0.1:{port}" for name, port in gateways.items()]
        self.config = CONFIG.format(port=port, key=key, servers="\n".join(lines))
        self.process = None

    async def start(self):
        file = self.folder / "haproxy.cfg"
        file.write_text(self.config)
        log = open(self.folder / "haproxy.log", "ab")
        # Not a daemon, so that it ends with us.
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig=KILL", "--", program(), "-db", "-f", file], stdin=subprocess.DEVNULL, stdout=log,
            stderr=log,
        )
        log.close()
        async with asyncio.timeout(20):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                    writer.close()
                    return
                except OSError:
                    if self.process.poll() is not None:
                        raise RuntimeError((self.folder / "haproxy.log").read_text()) from None
                    await asyncio.sleep(0.05)

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()


def program():
    """Debian has it in a folder that is not in every path."""
    return "/usr/sbin/haproxy"
