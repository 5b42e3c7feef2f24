"""A TCP proxy that cuts and delays what goes through it."""

import asyncio
import contextlib


class FaultProxy:
    """Listens on `port` and connects to `target`. Faults hold until they are taken back."""

    def __init__(self, port, target):
        self.port = port
        self.target = target
        self.delay = 0.0
        self.is_cut = False
        self.is_silent = False
        self.writers = set()
        self.passing = asyncio.Event()
        self.passing.set()
        self.server = None

    async def start(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", self.port)

    async def close(self):
        self.server.close()
        self.drop()

    def cut(self):
        """Ends every connection and refuses new ones, as a peer that has gone."""
        self.is_cut = True
        self.drop()

    def silence(self):
        """Forwards nothing and ends nothing, as a network that loses every packet."""
        self.is_silent = True
        self.passing.clear()

    def slow(self, seconds):
        """Delays each piece of data in both directions."""
        self.delay = seconds

    def heal(self):
        """Forwards again. What silence held back is lost with its connection, as after a partition."""
        was_silent, self.is_silent = self.is_silent, False
        self.is_cut = False
        self.delay = 0.0
        if was_silent:
            self.drop()
        self.passing.set()

    def drop(self):
        for writer in list(self.writers):
            writer.transport.abort()

    async def serve(self, reader, writer):
        if self.is_cut:
            writer.transport.abort()
            return
        self.writers.add(writer)
        far_writer = None
        try:
            await self.passing.wait()
            if self.is_cut or writer.transport.is_closing():
                return
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target)
            self.writers.add(far_writer)
            await asyncio.gather(self.pump(reader, far_writer), self.pump(far_reader, writer))
        except OSError:
            pass
        finally:
            for end in (writer, far_writer):
                if end is not None:
                    self.writers.discard(end)
                    end.transport.abort()

    async def pump(self, reader, writer):
        while data := await reader.read(65_536):
            await self.passing.wait()
            if self.delay:
                await asyncio.sleep(self.delay)
            writer.write(data)
            await writer.drain()
        with contextlib.suppress(OSError, RuntimeError):
            writer.write_eof()
