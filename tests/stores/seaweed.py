"""A real S3 server on this machine: SeaweedFS, one process on free ports of the loopback."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import obstore
from obstore.store import S3Store

from headrace.devhdfs.ports import PortReservation

BUCKET = "headrace-tests"

START_S = 60.0

KEYS = {"access_key_id": "tests", "secret_access_key": "a secret of the tests"}
"""May do anything."""

READER = {"access_key_id": "reader", "secret_access_key": "another secret"}
"""May read and list the bucket ``BUCKET``."""

_IDENTITIES = {
    "identities": [
        {
            "name": keys["access_key_id"],
            "credentials": [
                {"accessKey": keys["access_key_id"], "secretKey": keys["secret_access_key"]}
            ],
            "actions": actions,
        }
        for keys, actions in (
            (KEYS, ["Admin", "Read", "Write", "List"]),
            (READER, [f"Read:{BUCKET}", f"List:{BUCKET}"]),
        )
    ]
}

_SERVICES = ("master", "volume", "filer", "s3", "admin")


class Seaweed:
    """The server. Used as a context it is started, and stopped with all that it holds."""

    def __init__(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="headrace-s3-"))
        self._reserved = PortReservation()
        self._ports = [self._reserved.take() for _ in range(2 * len(_SERVICES))]
        self._process: subprocess.Popen[bytes] | None = None
        self.endpoint = f"http://127.0.0.1:{self._ports[6]}"

    def __enter__(self) -> Seaweed:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._reserved.release()
        shutil.rmtree(self._directory, ignore_errors=True)
        for port in self._ports:  # it puts sockets there, whatever it is told
            for left in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):
                left.unlink()

    @property
    def environment(self) -> Mapping[str, str]:
        """What a client of it has set."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": KEYS["access_key_id"],
            "AWS_SECRET_ACCESS_KEY": KEYS["secret_access_key"],
            "AWS_REGION": "us-east-1",
            "AWS_CONFIG_FILE": "/nonexistent",
            "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
        }

    def start(self) -> None:
        """Start it, or start it again with what it held, and wait until it answers."""
        (self._directory / "s3.json").write_text(json.dumps(_IDENTITIES))
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command(), stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        try:
            self._wait()
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        """End it at once, as a power cut would."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(10)
            self._process = None

    def log(self) -> str:
        """Return the end of what it said."""
        return (self._directory / "log").read_text(errors="replace")[-4000:]

    def store(self, bucket: str = BUCKET) -> S3Store:
        """Return obstore's view of a bucket, to look at and to fill behind headrace's back."""
        return S3Store(
            bucket,
            config={"endpoint": self.endpoint, "region": "us-east-1", **KEYS},
            client_options={"allow_http": True},
        )

    def upload(self, directory: Path, prefix: str) -> None:
        """Put all files of a directory below a prefix."""
        for path in sorted(directory.rglob("*")):
            if path.is_file():
                key = f"{prefix}/{path.relative_to(directory)}"
                obstore.put(self.store(), key, path.read_bytes())

    def _command(self) -> list[str]:
        options = {
            "dir": self._directory,
            "ip": "127.0.0.1",
            "ip.bind": "127.0.0.1",
            "master.telemetry": "false",
            "admin.ui": "false",
            "webdav": "false",
            "filer.localSocket": self._directory / "filer.sock",
            "s3.localSocket": self._directory / "s3.sock",
            "s3.config": self._directory / "s3.json",
            "s3.port.iceberg": 0,
            "s3.port.lance": 0,
        }
        for service, http, grpc in zip(_SERVICES, self._ports[::2], self._ports[1::2], strict=True):
            options |= {f"{service}.port": http, f"{service}.port.grpc": grpc}
        weed = Path(sys.executable).with_name("weed")
        settings = [f"-{name}={value}" for name, value in options.items()]
        return [str(weed), f"-logdir={self._directory}", "mini", *settings]

    def _wait(self) -> None:
        give_up_at = time.monotonic() + START_S
        while not self._answers():
            assert self._process is not None
            if self._process.poll() is not None or time.monotonic() > give_up_at:
                raise RuntimeError(f"SeaweedFS does not start: {self.log()}")
            time.sleep(0.05)

    def _answers(self) -> bool:
        store = S3Store(
            BUCKET,
            config={"endpoint": self.endpoint, "region": "us-east-1", **KEYS},
            client_options={"allow_http": True},
            retry_config={"max_retries": 0},
        )
        try:
            obstore.put(store, ".begun", b"1")
        except (obstore.exceptions.BaseError, OSError):
            return False
        return True


@contextmanager
def as_client(environment: Mapping[str, str | None]) -> Iterator[None]:
    """Set variables for a block, or unset those of None."""
    before = {name: os.environ.get(name) for name in environment}
    _set(environment)
    try:
        yield
    finally:
        _set(before)


def _set(environment: Mapping[str, str | None]) -> None:
    for name, value in environment.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
