"""No network in the Python processes of the tests: this folder stands first on PYTHONPATH.

Loopback and Unix sockets stay, since the workers of one machine talk through them. What opens
sockets without Python's own module (git, a library's C code) is not seen here.
"""

import ipaddress
import os
import socket
import sys
from pathlib import Path
from typing import Any

INSIDE = frozenset({"", "localhost", socket.gethostname()})


def is_inside(host: Any) -> bool:
    """Whether a host, as sockets take it, is this machine."""
    name = host.decode() if isinstance(host, bytes) else str(host or "")
    if name in INSIDE:
        return True
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def require_inside(host: Any) -> None:
    """Raise AssertionError for a host of the network."""
    if not is_inside(host):
        raise AssertionError(f"a test asked for {host!r}: tests use no network")


def block() -> None:
    """Refuse connections, messages and look-ups that leave this machine; once a process."""
    if hasattr(socket, "tests_are_offline"):
        return
    socket.tests_are_offline = True  # type: ignore[attr-defined]
    for name in ("connect", "connect_ex", "sendto", "sendmsg"):
        setattr(socket.socket, name, _guarded_send(getattr(socket.socket, name)))
    for name in ("getaddrinfo", "gethostbyname", "gethostbyname_ex"):
        setattr(socket, name, _guarded_look_up(getattr(socket, name)))


def _guarded_send(original: Any) -> Any:
    def call(self: socket.socket, *arguments: Any) -> Any:
        if self.family in (socket.AF_INET, socket.AF_INET6):
            for address in arguments:  # (host, port, ...) beside data and flags
                if isinstance(address, tuple) and len(address) in (2, 4):
                    require_inside(address[0])
        return original(self, *arguments)

    return call


def _guarded_look_up(original: Any) -> Any:
    def call(host: Any, *arguments: Any, **named: Any) -> Any:
        require_inside(host)
        return original(host, *arguments, **named)

    return call


block()
if "TESTS_RECORD_IMPORTS" in os.environ and sys.argv[0] != "-c":
    import imports

    imports.record(Path(os.environ["TESTS_RECORD_IMPORTS"]))
