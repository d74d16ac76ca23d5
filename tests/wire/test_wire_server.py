"""What a server holds of the clients that it has answered."""

from __future__ import annotations

import asyncio
import gc
import socket
import struct

from starlette.responses import PlainTextResponse
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from headrace.wire.server import Server, wait_started

_RESET_WHEN_CLOSED = struct.pack("ii", 1, 0)
_REQUEST = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"


def connections() -> int:
    gc.collect()
    # By type(): isinstance() also looks at __class__, which stand-ins for modules may warn of.
    return sum(issubclass(type(each), HttpToolsProtocol) for each in gc.get_objects())


async def ask_and_reset(address: tuple[str, int]) -> None:
    reader, writer = await asyncio.open_connection(*address)
    writer.write(_REQUEST)
    await reader.readuntil(b"answer")
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_WHEN_CLOSED)
    writer.transport.abort()


def test_nothing_is_left_of_clients_whose_connections_were_reset() -> None:
    async def serve_and_ask() -> tuple[int, int]:
        server = Server(PlainTextResponse("answer"), tls=None)
        with socket.create_server(("127.0.0.1", 0)) as listening:
            serving = asyncio.ensure_future(server.serve([listening]))
            await wait_started([server])
            before = connections()
            for _ in range(5):
                await ask_and_reset(listening.getsockname())
            async with asyncio.timeout(10):
                while server.server_state.connections:
                    await asyncio.sleep(0.01)
            after = connections()
            server.end()
            await serving
        return before, after

    before, after = asyncio.run(serve_and_ask())
    assert after <= before
