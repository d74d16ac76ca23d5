from __future__ import annotations

import socket

import pytest

from headrace.devhdfs.ports import PortReservation


def bound(port: int, *, reuse: bool) -> socket.socket:
    """Bind as a server would; Java's set SO_REUSEADDR."""
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(reuse))
    try:
        server.bind(("127.0.0.1", port))
        server.listen()
    except OSError:
        server.close()
        raise
    return server


def test_clusters_that_start_at_once_get_different_ports() -> None:
    with PortReservation() as first, PortReservation() as second:
        ports = [reservation.take() for _ in range(50) for reservation in (first, second)]
    assert len(set(ports)) == 100


def test_a_daemon_can_listen_on_its_port_again_and_again_while_it_is_kept() -> None:
    with PortReservation() as ports:
        port = ports.take()
        for _ in range(2):
            bound(port, reuse=True).close()


def test_others_do_not_get_a_port_that_is_kept() -> None:
    with PortReservation() as ports, pytest.raises(OSError, match="in use"):
        bound(ports.take(), reuse=False)


def test_a_released_port_is_free() -> None:
    with PortReservation() as ports:
        port = ports.take()
    bound(port, reuse=False).close()
