"""A connection to a daemon that a test can cut."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from types import TracebackType


class Breakable:
    """Listens on a unix socket, and forwards its connections to the daemon."""

    def __init__(self, path: Path, daemon: str) -> None:
        self.address = f"unix:{path}"
        #: Connections accepted so far.
        self.connections = 0
        self._daemon = daemon.removeprefix("unix:")
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        self._flows = threading.Event()
        self._flows.set()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Breakable:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def cut(self) -> None:
        """Ends all connections; still accepts new ones."""
        with self._lock:
            for end in self._open:
                _shut(end)
            self._open.clear()

    def freeze(self) -> None:
        """Forwards nothing from now on, like a daemon after SIGSTOP."""
        self._flows.clear()

    def close(self) -> None:
        """Ends all connections, and accepts no new ones."""
        _shut(self._listener)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._daemon)
            with self._lock:
                self.connections += 1
                self._open += [client, server]
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=_pump, args=(source, sink, self._flows), daemon=True).start()


def _pump(source: socket.socket, sink: socket.socket, flows: threading.Event) -> None:
    try:
        while data := source.recv(1 << 16):
            flows.wait()
            sink.sendall(data)
    except OSError:
        pass
    _shut(sink)


def _shut(end: socket.socket) -> None:
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # Already shut down.
