"""A network that holds a write back: a proxy before PostgreSQL, on a Unix socket of its own."""

import os
import re
import socket
import threading
from pathlib import Path

# How a message of PostgreSQL's protocol begins that binds the values of a prepared statement: here the worker's write.
BIND = b"B"
SIZE = 1 << 16


class Network:
    """Passes on what clients and the server say. The first write of each client waits for `deliver`."""

    def __init__(self, url: str, folder: Path) -> None:
        folder.mkdir()
        found = re.search(r"host=([^&]+)", url)
        if not found:
            raise AssertionError(f"the server has no Unix socket: {url}")
        self.url = url.replace(found[1], str(folder))
        self.held = threading.Event()
        self.answers: list[bytes] = []
        self._server = f"{found[1]}/.s.PGSQL.5432"
        self._deliver = threading.Event()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(os.fspath(folder / ".s.PGSQL.5432"))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def deliver(self) -> None:
        """Pass on what is held back, and all that comes."""
        self._deliver.set()

    def close(self) -> None:
        """Accept no more clients."""
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._server)
            threading.Thread(target=self._forth, args=(client, server), daemon=True).start()
            threading.Thread(target=self._back, args=(server, client), daemon=True).start()

    def _forth(self, client: socket.socket, server: socket.socket) -> None:
        while said := receive(client):
            if said.startswith(BIND) and not self._deliver.is_set():
                self.held.set()
                self._deliver.wait()
            server.sendall(said)
        # A write that was sent before its client died is still on its way, so the server reads it before the end.
        server.shutdown(socket.SHUT_WR)

    def _back(self, server: socket.socket, client: socket.socket) -> None:
        while said := receive(server):
            if self._deliver.is_set():
                self.answers.append(said)
            try:
                client.sendall(said)
            except OSError:
                continue


def receive(end: socket.socket) -> bytes:
    """Give the next bytes; none when the other side is gone."""
    try:
        return end.recv(SIZE)
    except OSError:
        return b""
