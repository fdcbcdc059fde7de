"""An SSH server for tests, on a port of this machine.

A second process runs it, and ends it with everything that was started over it when the test ends, or the process of the
test: interrupted tests leave no workers behind. It notices by the end of its standard input.
"""

from __future__ import annotations

import contextlib
import ctypes
import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of prctl(2): children of children that have ended become its own."""


def program() -> str | None:
    """Return the server's program, if there is one."""
    return shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


@contextlib.contextmanager
def server(directory: Path, environment: str = "") -> Iterator[dict[str, Any]]:
    """Run a server for this user, and return the options of a connection to it.

    ``environment`` has variables of the processes that are started over it, as ``NAME=VALUE``.
    """
    directory.chmod(0o700)
    for name in ("host", "client"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(directory / name)], check=True)
    (directory / "authorized").write_text((directory / "client.pub").read_text())
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    config = directory / "config"
    config.write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {directory}/host\nAuthorizedKeysFile {directory}/authorized\n"
        f"PidFile {directory}/pid\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\n"
        + (f"SetEnv {environment}\n" if environment else "")
    )
    command = [sys.executable, __file__, str(program()), str(config)]
    # Ctrl-C of a terminal reaches a group of processes; this one outlives the test to clear up.
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as keeper:
        assert keeper.stdin is not None
        try:
            for _ in range(100):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.1)
            yield {
                "port": port,
                "known_hosts": None,
                "client_keys": [str(directory / "client")],
                "username": getpass.getuser(),
            }
        finally:
            keeper.stdin.close()
            keeper.wait(timeout=60)


def cluster(options: dict[str, Any]) -> Any:
    """Return a cluster of a scheduler and two workers over SSH."""
    import distributed

    return distributed.SSHCluster(
        ["127.0.0.1", "127.0.0.1", "127.0.0.1"],
        connect_options=options,
        worker_options={"nthreads": 1},
        scheduler_options={"port": 0, "dashboard_address": ":0"},
        remote_python=sys.executable,
    )


def keep(server: str, config: str) -> None:
    """Run the server until standard input ends, and kill everything that it has started."""
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    subprocess.Popen([server, "-D", "-e", "-f", config], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    sys.stdin.buffer.read()
    own = Path(f"/proc/self/task/{os.getpid()}/children")
    with contextlib.suppress(ChildProcessError):
        while True:
            # The children of those that are killed become this process's own.
            for child in own.read_text().split():
                os.kill(int(child), signal.SIGKILL)
            os.waitpid(-1, 0)


if __name__ == "__main__":
    keep(*sys.argv[1:])
