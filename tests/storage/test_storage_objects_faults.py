"""What an object store, its keys or the network does wrong; a proxy in front of a real server."""

from __future__ import annotations

import os
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace

import obstore
import pytest

from headrace.core.errors import (
    AccessError,
    CallerError,
    ConfigError,
    HeadraceError,
    NotFoundError,
    StorageError,
)
from headrace.storage.objects import asking
from headrace.storage.objects.config import ObjectsConfig
from headrace.storage.objects.storage import ObjectStorage
from headrace.storage.opening import open_storage
from headrace.storage.port import ByteRange
from stores.faulty import NEVER_ENDS, Faulty, Harm, s3_error
from stores.seaweed import KEYS, READER, Seaweed, as_client

SMALL = ObjectsConfig(part_bytes=1000, gap_bytes=10, upload_bytes=5 << 20, outage_s=3)
CONTENT = bytes(range(256)) * 40


@pytest.fixture
def proxy(s3: Seaweed) -> Iterator[Faulty]:
    with Faulty(s3.endpoint) as proxy, as_client({"AWS_ENDPOINT_URL": proxy.endpoint}):
        yield proxy


@pytest.fixture
def storage(proxy: Faulty, s3: Seaweed, s3_dir: str) -> ObjectStorage:
    """A store that holds ``x``."""
    obstore.put(s3.store(), f"{s3_dir.rpartition('/')[2]}/x", CONTENT)
    opened = ObjectStorage(s3_dir, SMALL)
    proxy.requests.clear()
    return opened


def test_a_store_that_throttles_is_asked_again(storage: ObjectStorage, proxy: Faulty) -> None:
    proxy.harms.append(Harm("GET", 3, 503, s3_error("SlowDown", "Please reduce your rate")))
    assert storage.read("x", 5, 10) == CONTENT[5:15]
    assert len(proxy.requests) == storage.statistics().requests - 1 == 4
    assert storage.statistics().repeated == 3


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (503, s3_error("SlowDown"), "503 SlowDown; it throttles: ask it less often"),
        (500, s3_error("InternalError"), "500 InternalError"),
    ],
)
def test_a_store_that_does_not_recover_is_given_up_after_the_outage_that_is_allowed(
    storage: ObjectStorage, proxy: Faulty, s3_dir: str, status: int, body: bytes, said: str
) -> None:
    hasty = ObjectStorage(s3_dir, replace(SMALL, outage_s=0.5))
    proxy.harms.append(Harm("GET", NEVER_ENDS, status, body))
    begin = time.monotonic()
    with pytest.raises(StorageError, match=said):
        hasty.read("x", 5, 10)
    assert 0.1 < time.monotonic() - begin < 10


@pytest.mark.parametrize("cut_after", [0, 1, 999])
def test_an_answer_that_is_cut_off_is_asked_for_again(
    storage: ObjectStorage, proxy: Faulty, cut_after: int
) -> None:
    proxy.harms.append(Harm("GET", 2, cut_after=cut_after))
    assert storage.read("x", 0, 5000) == CONTENT[:5000]


def test_a_server_that_is_killed_is_waited_for(storage: ObjectStorage, proxy: Faulty) -> None:
    proxy.fall_silent()
    back = threading.Timer(0.5, proxy.listen)
    back.start()
    assert storage.read("x") == CONTENT
    assert storage.statistics().repeated > 0
    back.join()


def test_a_dead_endpoint_is_told_in_seconds(s3: Seaweed, s3_dir: str) -> None:
    begin = time.monotonic()
    with (
        as_client({"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}),
        pytest.raises(StorageError, match="nobody can be connected to at http://127"),
    ):
        open_storage(s3_dir)
    assert time.monotonic() - begin < 15


def test_a_server_that_takes_connections_and_is_silent_is_told(
    s3_dir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "FIRST_CONTACT_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        begin = time.monotonic()
        with (
            as_client({"AWS_ENDPOINT_URL": endpoint}),
            pytest.raises(StorageError, match="no answer came in time at http://127"),
        ):
            ObjectStorage(s3_dir, ObjectsConfig(silence_s=0.3))
    assert time.monotonic() - begin < 15


def test_an_outage_is_told_once_and_its_end(
    storage: ObjectStorage,
    proxy: Faulty,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(asking, "TOLD_AFTER", 2)
    proxy.harms.append(Harm("GET", 1, 503))
    storage.read("x", 0, 1)
    assert not caplog.messages
    proxy.harms.append(Harm("GET", 3, 503))
    storage.read("x", 0, 1)
    waiting, answers = caplog.messages
    assert "503; it throttles" in waiting
    assert waiting.endswith("trying again for 3 s")
    assert answers.endswith("answers again")


@pytest.mark.parametrize(
    "endpoint",
    [
        *("127.0.0.1:9000", "http://", "http://a b:9000", "s3://x", "http://ü.de:1", "http://:1"),
        *("http://a:99999", "http://a:b", "http://a:1:2", "http://[::1", "http://[x]:1"),
        "http://1.2.3.999:1",
    ],
)
def test_an_endpoint_that_is_no_url_is_told(s3: Seaweed, s3_dir: str, endpoint: str) -> None:
    with (
        as_client({"AWS_ENDPOINT_URL": endpoint}),
        pytest.raises(ConfigError, match="AWS_ENDPOINT_URL=http://HOST:PORT"),
    ):
        open_storage(s3_dir)


@pytest.mark.parametrize(
    ("url", "environment", "at"),
    [
        ("s3://data/a", {"AWS_ENDPOINT_URL": "http://xn--a:1"}, "http://xn--a:1"),
        (
            "s3://xn--a/a",
            {"AWS_ENDPOINT_URL": None, "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true"},
            "Amazon's S3",
        ),
        ("gs://data/a", {"GOOGLE_BASE_URL": "http://xn--a:1"}, "http://xn--a:1"),
        ("gs://data/a", {"GOOGLE_BASE_URL": "http://me:hush@[::1"}, "http://…@"),
        ("az://box/a", {"AZURE_STORAGE_ENDPOINT": "http://xn--a:1"}, "http://xn--a:1"),
    ],
)
def test_a_host_that_there_cannot_be_is_told(
    s3: Seaweed, url: str, environment: dict[str, str | None], at: str
) -> None:
    """obstore panics at some, which no ``except Exception`` would catch."""
    both = {"GOOGLE_SKIP_SIGNATURE": "true", "AZURE_STORAGE_ACCOUNT_NAME": "me", **environment}
    with as_client(both), pytest.raises(CallerError) as caught:
        open_storage(url)
    assert url in str(caught.value)
    assert at in str(caught.value)
    assert "hush" not in str(caught.value)


def test_a_bucket_that_is_not_there_is_named(s3: Seaweed) -> None:
    with pytest.raises(NotFoundError, match="there is no bucket nowhere-at-all"):
        open_storage("s3://nowhere-at-all/data")


def test_a_folder_in_which_nothing_lies_names_the_nearest(
    storage: ObjectStorage, s3_dir: str
) -> None:
    storage.write("imagenet/train/x", b"")
    for wrong in ("imagnet", "imagenet/tran"):
        with pytest.raises(NotFoundError, match=f"nothing lies in .* did you mean {s3_dir}/imag"):
            open_storage(f"{s3_dir}/{wrong}")
    with pytest.raises(NotFoundError, match="is a file; name the folder that holds it"):
        open_storage(f"{s3_dir}/x")
    with pytest.raises(NotFoundError, match=f"did you mean {s3_dir}/imagenet"):
        storage.read("imagenett")


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"AWS_ACCESS_KEY_ID": "nobody"}, "AWS_ACCESS_KEY_ID is none that the store knows"),
        ({"AWS_SECRET_ACCESS_KEY": "hush"}, "AWS_SECRET_ACCESS_KEY does not belong to"),
    ],
)
def test_wrong_keys_are_told_by_the_variable_they_are_from(
    s3: Seaweed, s3_dir: str, environment: dict[str, str], said: str
) -> None:
    with as_client(environment), pytest.raises(AccessError, match=said) as caught:
        open_storage(s3_dir)
    _hold_no_secret(caught.value, *environment.values())


def test_keys_that_may_only_read_are_refused_what_they_may_not(
    storage: ObjectStorage, s3_dir: str
) -> None:
    reader = {f"AWS_{name.upper()}": value for name, value in READER.items()}
    with as_client(reader):
        poor = open_storage(s3_dir)
    assert poor.read("x") == CONTENT
    for forbidden in (lambda: poor.write("y", b""), lambda: poor.delete("x")):
        with pytest.raises(AccessError, match="AccessDenied") as caught:
            forbidden()
        _hold_no_secret(caught.value, READER["secret_access_key"])
    with pytest.raises(AccessError, match="AccessDenied"), poor.create("y") as writer:
        writer.commit()
    assert storage.read("x") == CONTENT


def test_that_no_keys_are_set_is_told_with_the_variables(
    proxy: Faulty, s3_dir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "FIRST_CONTACT_S", 0.3)
    proxy.harms.append(Harm("/latest/", NEVER_ENDS, 404))
    none = dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"))
    with (
        as_client({**none, "AWS_METADATA_ENDPOINT": proxy.endpoint}),
        pytest.raises(StorageError, match="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
    ):
        open_storage(s3_dir)


@pytest.mark.parametrize(
    ("url", "endpoint", "more", "said"),
    [
        ("s3://data/a", "AWS_METADATA_ENDPOINT=http://{}", {}, "AWS_SKIP_SIGNATURE=true"),
        (
            "gs://data/a",
            "GCE_METADATA_HOST={}",
            {"GCE_METADATA_IP": "127.0.0.1:1"},
            "GOOGLE_SKIP_SIGNATURE=true",
        ),
        (
            "az://box/a",
            "AZURE_MSI_ENDPOINT=http://{}/token",
            {"AZURE_STORAGE_ACCOUNT_NAME": "me"},
            "AZURE_SKIP_SIGNATURE=true",
        ),
    ],
)
def test_that_nobody_gives_keys_is_told_in_seconds(
    monkeypatch: pytest.MonkeyPatch, url: str, endpoint: str, more: dict[str, str], said: str
) -> None:
    """Most hosts outside a cloud have nobody at the address at which instances ask for keys."""
    monkeypatch.setattr(asking, "KEYS_SILENCE_S", 0.2)
    monkeypatch.setattr(asking, "FIRST_CONTACT_S", 0.1)
    none = dict.fromkeys(name for name in os.environ if name.startswith(("AWS", "GOOGLE", "AZURE")))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        variable, _, at = endpoint.partition("=")
        named = {variable: at.format(f"127.0.0.1:{silent.getsockname()[1]}")}
        begin = time.monotonic()
        with (
            as_client({**none, "HOME": "/nonexistent", **more, **named}),
            pytest.raises(StorageError, match=f"no keys are set.* for a public .*{said}"),
        ):
            open_storage(url)
    assert time.monotonic() - begin < 15


def test_a_store_that_is_slow_at_first_is_not_taken_for_one_without_keys(
    proxy: Faulty, storage: ObjectStorage, s3_dir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "KEYS_SILENCE_S", 0.2)
    proxy.harms.append(Harm("GET", 1, before=lambda: time.sleep(0.5)))
    assert ObjectStorage(s3_dir, SMALL).read("x", 0, 1) == CONTENT[:1]


@pytest.mark.parametrize(
    ("status", "code", "said"),
    [
        (403, "RequestTimeTooSkewed", "the clock of this host is wrong"),
        (400, "ExpiredToken", "AWS_SESSION_TOKEN has expired"),
        (403, "AccessDenied", "these keys may not"),
        (301, "PermanentRedirect", "set AWS_REGION"),
        (400, "AuthorizationHeaderMalformed", "set AWS_REGION"),
        (405, "MethodNotAllowed", "405 MethodNotAllowed .words of the store."),
    ],
)
def test_what_a_store_refuses_says_what_to_do(
    storage: ObjectStorage, proxy: Faulty, status: int, code: str, said: str
) -> None:
    proxy.harms.append(Harm("GET", 1, status, s3_error(code, "words of the store")))
    with pytest.raises(StorageError, match=said):
        storage.read("x")
    assert len(proxy.requests) == 1


@pytest.mark.parametrize(
    ("harmed", "ask", "told"),
    [
        ("GET", lambda store: store.read("x", 0, 5), "cannot read {}/x: "),
        ("none", lambda store: store.read("x", 0, 10**6), "{}/x ends at byte"),
        ("none", lambda store: store.stat("a xx"), "cannot stat {}/a%20xx: no such file"),
        ("GET", lambda store: list(store.list()), "cannot list {}: "),
        ("PUT", lambda store: store.write("y", b""), "cannot write {}/y: "),
        ("PUT", lambda store: store.create("y").commit(), "cannot write {}/y: "),
        ("PUT", lambda store: store.rename("x", "y"), "cannot rename {}/x to {}/y: "),
        ("none", lambda store: store.delete_folder("x"), "cannot delete {}/x: "),
        ("POST", lambda store: store.delete("x"), "cannot delete {}/x: "),
    ],
)
def test_an_error_names_the_whole_url(
    storage: ObjectStorage,
    proxy: Faulty,
    s3_dir: str,
    harmed: str,
    ask: Callable[[ObjectStorage], object],
    told: str,
) -> None:
    proxy.harms.append(Harm(harmed, NEVER_ENDS, 403))
    with pytest.raises(HeadraceError) as caught:
        ask(storage)
    assert told.replace("{}", s3_dir) in str(caught.value)


def test_all_parts_of_a_read_are_of_one_version(storage: ObjectStorage, proxy: Faulty) -> None:
    other = CONTENT[::-1]
    proxy.harms.append(Harm("GET", 1, before=lambda: storage.write("x", other)))
    assert storage.read_ranges("x", [ByteRange(0, 5000), ByteRange(9000, 100)]) == [
        other[:5000],
        other[9000:9100],
    ]


def test_a_file_that_is_replaced_all_the_time_is_given_up(
    storage: ObjectStorage, proxy: Faulty
) -> None:
    versions = iter(range(100))
    proxy.harms.append(
        Harm("GET", NEVER_ENDS, before=lambda: storage.write("x", CONTENT + bytes(next(versions))))
    )
    with pytest.raises(StorageError, match="replaced 4 times while it was read"):
        storage.read("x", 0, 5000)


def test_comparing_what_was_read_with_the_index_costs_no_request(
    storage: ObjectStorage, proxy: Faulty
) -> None:
    storage.read("x", 0, 100)
    assert storage.stat("x").size == len(CONTENT)
    assert len(proxy.requests) == 1


def test_near_ranges_are_one_request_and_long_ones_several(
    storage: ObjectStorage, proxy: Faulty
) -> None:
    storage.read_ranges("x", [ByteRange(0, 100), ByteRange(105, 100), ByteRange(2000, 10)])
    assert len(proxy.requests) == 2
    proxy.requests.clear()
    assert storage.read("x") == CONTENT
    assert len(proxy.requests) == 11


def test_a_large_file_is_uploaded_in_parts_and_an_aborted_one_leaves_none(
    storage: ObjectStorage, proxy: Faulty
) -> None:
    piece = os.urandom(12 << 20)
    with storage.create("big") as writer:
        writer.write(piece)
        info = writer.commit()
    assert storage.read("big", 7 << 20, 100) == piece[7 << 20 :][:100]
    assert info.size == len(piece)
    assert info in list(storage.list())
    proxy.requests.clear()
    with storage.create("never") as writer:
        writer.write(piece)
    assert any(line.startswith("DELETE") and "uploadId=" in line for line in proxy.requests)
    with pytest.raises(NotFoundError):
        storage.stat("never")


def test_a_store_that_takes_no_parts_breaks_the_writer(
    storage: ObjectStorage, proxy: Faulty
) -> None:
    proxy.harms.append(Harm("partNumber=", NEVER_ENDS, 403, s3_error("QuotaExceeded")))
    with storage.create("big") as writer, pytest.raises(StorageError, match="QuotaExceeded"):
        writer.write(bytes(12 << 20))
        writer.commit()
    with pytest.raises(CallerError, match="create it anew"):
        writer.write(b"")


def test_a_file_that_the_store_copies_not_by_itself_is_copied_through_here(
    storage: ObjectStorage, proxy: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.storage.objects.storage.COPY_BYTES", 100)
    monkeypatch.setattr("headrace.storage.objects.storage.COPY_CHUNK_BYTES", 3000)
    storage.rename("x", "y")
    assert storage.read("y") == CONTENT
    assert [info.path for info in storage.list()] == ["y"]


def test_a_file_that_is_replaced_while_it_is_copied_through_here_stays(
    storage: ObjectStorage, proxy: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.storage.objects.storage.COPY_BYTES", 100)
    monkeypatch.setattr("headrace.storage.objects.storage.COPY_CHUNK_BYTES", 3000)
    other = CONTENT[::-1]
    proxy.harms.append(Harm("GET", 1, before=lambda: storage.write("x", other)))
    with pytest.raises(StorageError, match="replaced while it was copied"):
        storage.rename("x", "y")
    assert [info.path for info in storage.list()] == ["x"]
    assert storage.read("x") == other


def test_a_file_renamed_to_itself_is_still_there(storage: ObjectStorage) -> None:
    storage.rename("x", "x")
    assert storage.read("x") == CONTENT


@pytest.mark.parametrize("name", ["a//b", "a/./b", "a\nb"])
def test_names_that_cannot_be_written_are_refused(storage: ObjectStorage, name: str) -> None:
    with pytest.raises(CallerError, match="takes no such name"):
        storage.write(name, b"")


@pytest.mark.parametrize("in_order", [True, False])
def test_a_listing_that_breaks_off_goes_on(
    storage: ObjectStorage, proxy: Faulty, monkeypatch: pytest.MonkeyPatch, in_order: bool
) -> None:
    monkeypatch.setattr(storage._asking, "lists_in_order", in_order)
    storage.write("y", b"1")
    proxy.harms.append(Harm("list-type=2", 1, cut_after=10))
    assert [info.path for info in storage.list()] == ["x", "y"]


def test_a_long_listing_that_breaks_off_goes_on_after_the_last_name(
    storage: ObjectStorage, proxy: Faulty, s3_dir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage._asking, "lists_in_order", True)
    monkeypatch.setattr("headrace.storage.objects.listing.PAGE", 1)
    for name in ("y", "z"):
        storage.write(name, b"1")
    proxy.requests.clear()
    _listed(proxy, (f"{s3_dir.rpartition('/')[2]}/x", len(CONTENT)), more=True)
    proxy.harms.append(Harm("list-type=2", 1, 503))
    assert [info.path for info in storage.list()] == ["x", "y", "z"]
    assert "start-after" in proxy.requests[2]


def _hold_no_secret(error: HeadraceError, *secrets: str) -> None:
    told = f"{error}{error.__cause__}"
    assert not [secret for secret in (*secrets, KEYS["secret_access_key"]) if secret in told]


def _listed(proxy: Faulty, *entries: tuple[str, int], more: bool = False) -> None:
    """Have the next list show these keys, as some servers hold them and ours does not."""
    rest = "<NextContinuationToken>next</NextContinuationToken>" * more
    contents = "".join(
        f"<Contents><Key>{key}</Key><Size>{size}</Size><ETag>1</ETag>"
        "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
        for key, size in entries
    )
    truncated = f"<IsTruncated>{str(more).lower()}</IsTruncated>"
    body = f"<ListBucketResult>{truncated}{rest}{contents}</ListBucketResult>"
    proxy.harms.append(Harm("list-type=2", 1, 200, body.encode()))


def test_the_mark_that_a_console_makes_of_a_folder_is_no_file(
    storage: ObjectStorage, proxy: Faulty, s3_dir: str
) -> None:
    folder = s3_dir.rpartition("/")[2]
    storage.write("empty", b"")
    _listed(proxy, (f"{folder}/", 0), (f"{folder}/a/", 0), (f"{folder}/empty", 0))
    assert [info.path for info in storage.list()] == ["empty"]


def test_a_key_that_cannot_be_read_is_told_when_it_is_listed(
    storage: ObjectStorage, proxy: Faulty, s3_dir: str
) -> None:
    folder = s3_dir.rpartition("/")[2]
    _listed(proxy, (f"{folder}/a//b", 3))
    with pytest.raises(CallerError, match=r"takes no such name .*rename the object"):
        list(storage.list())


def test_a_store_that_lists_in_no_order_is_noticed(
    storage: ObjectStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a/b", "a-b"):
        storage.write(name, b"1")
    assert [info.path for info in storage.list()] == ["a-b", "a/b", "x"]
    monkeypatch.setattr(storage._asking, "lists_in_order", True)
    with pytest.raises(StorageError, match=r"lists a-b after a/b"):
        list(storage.list())


def test_a_forked_child_is_refused_at_once(storage: ObjectStorage) -> None:
    assert storage.read("x", 0, 1)
    told, tell = os.pipe()
    with warnings.catch_warnings():  # later Pythons warn of forks of processes with threads
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:
        os.write(tell, _said_by(lambda: storage.read("x", 0, 1)))
        os._exit(0)
    os.waitpid(child, 0)
    assert b"spawn" in os.read(told, 1000)


def _said_by(call: Callable[[], object]) -> bytes:
    try:
        return repr(call()).encode()
    except StorageError as error:
        return str(error).encode()
