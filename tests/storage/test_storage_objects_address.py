"""What URLs, the environment and files of profiles say of an object store; none is asked."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from headrace.core.errors import CallerError, ConfigError
from headrace.storage.address import StoreAddress, masked
from headrace.storage.objects.address import parse_address
from headrace.storage.objects.asking import Asking
from headrace.storage.objects.config import ObjectsConfig
from headrace.storage.objects.failure import Fault, judge
from headrace.storage.objects.known import Known
from headrace.storage.objects.profile import s3_settings
from headrace.storage.objects.reading import file_info
from headrace.storage.opening import open_storage, require_openable
from headrace.storage.port import FileInfo


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("s3://data/a/b/", ("s3", "data", "a/b", None, "s3://data/a/b")),
        ("s3a://data", ("s3", "data", "", None, "s3a://data")),
        ("s3://data//a%20b/./c", ("s3", "data", "a b/c", None, "s3://data/a%20b/c")),
        ("gs://data/a", ("gs", "data", "a", None, "gs://data/a")),
        ("az://box/a", ("az", "box", "a", None, "az://box/a")),
        ("abfs://box/a", ("az", "box", "a", None, "abfs://box/a")),
        (
            "abfss://box@me.dfs.core.windows.net/a",
            ("az", "box", "a", "me", "abfss://box@me.dfs.core.windows.net/a"),
        ),
        (
            "https://me.blob.core.windows.net/box/a",
            ("az", "box", "a", "me", "https://me.blob.core.windows.net/box/a"),
        ),
    ],
)
def test_a_url_names_a_bucket_and_a_folder(url: str, expected: tuple[object, ...]) -> None:
    found = parse_address(url)
    assert (found.kind, found.bucket, found.root, found.account, found.url) == expected
    assert parse_address(found.url) == found
    assert found.path(found.key("x/y")) == "x/y"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("s3:///a", "names no bucket; write s3://BUCKET/PATH"),
        ("https://me.blob.core.windows.net/", "names no bucket"),
        ("https://example.org/data", r"none of Azure's .* write fsspec\+https://"),
        ("abfss://box@example.org/a", "none of Azure's"),
        ("s3://data/../a", "write the path in full"),
        ("s3://user@data/a", "a user"),
    ],
)
def test_a_url_that_names_no_bucket_is_refused(url: str, said: str) -> None:
    with pytest.raises(CallerError, match=said):
        parse_address(url)


@pytest.mark.parametrize(
    "url",
    [
        "s3://KEY:hush@data/a",
        "s3://KEY:hu/sh@data/a",
        "s3://hush@data/a",
        "s3://KEY:hush",
        "https://me.blob.core.windows.net/box?sig=hush",
        "gopher://me:hush@host/a",
        "abfss://box:hush@me.dfs.core.windows.net/a",
    ],
)
def test_a_secret_in_a_url_is_refused_and_not_repeated(url: str) -> None:
    for refuse in (open_storage, require_openable, StoreAddress.parse):
        with pytest.raises(CallerError) as caught:
            refuse(url)
        assert "hush" not in f"{caught.value}{caught.value.__cause__}"


def test_what_holds_no_secret_is_shown_as_it_is() -> None:
    for url in ("s3://data/a@b", "hdfs://nn:8020/a/b@c", "file:/a", "/a@b"):
        assert masked(url) == url


@pytest.mark.parametrize(
    ("url", "environment", "in_order"),
    [
        ("s3://data", {}, True),
        ("s3://data", {"AWS_ENDPOINT_URL": "http://minio:9000"}, False),
        ("s3://data--usw2-az1--x-s3", {}, False),
        ("gs://data", {"GOOGLE_SKIP_SIGNATURE": "true"}, True),
        ("az://box", {"AZURE_STORAGE_ACCOUNT_NAME": "me"}, False),
    ],
)
def test_only_stores_that_are_known_to_list_in_order_are_trusted_to(
    url: str, environment: dict[str, str], in_order: bool, bare: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        bare.setenv(name, value)
    assert Asking(parse_address(url), ObjectsConfig()).lists_in_order is in_order


def test_what_is_missing_is_told_before_a_store_is_asked(bare: pytest.MonkeyPatch) -> None:
    assert require_openable("s3://data/a/") == "s3://data/a"
    with pytest.raises(ConfigError, match="AZURE_STORAGE_ACCOUNT_NAME is not set"):
        require_openable("az://box/a")
    bare.setenv("HEADRACE_OBJECTS_OUTAGE_S", "soon")
    with pytest.raises(ConfigError, match="HEADRACE_OBJECTS_OUTAGE_S='soon' must be seconds"):
        require_openable("s3://data/a")
    bare.setenv("HEADRACE_OBJECTS_OUTAGE_S", "inf")
    with pytest.raises(ConfigError, match="HEADRACE_OBJECTS_OUTAGE_S=inf must be 1e"):
        require_openable("s3://data/a")
    bare.setenv("HEADRACE_OBJECTS_OUTAGE_S", "0")
    with pytest.raises(ConfigError, match=r"objects.outage_s=0.0 must be above 0"):
        require_openable("s3://data/a")


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    for name in list(sys.modules):
        if name.startswith("headrace.storage.objects."):
            monkeypatch.delitem(sys.modules, name)
    for ask in (open_storage, require_openable):
        with pytest.raises(ConfigError, match=r"pip install 'headrace\[objects\]'"):
            ask("s3://data/a")


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """An environment in which nothing is set."""
    for name in os.environ:
        if name.startswith(("AWS_", "GOOGLE_", "AZURE_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    return monkeypatch


CREDENTIALS = """
[default]
aws_access_key_id = of-default
aws_secret_access_key = hush
[work]
aws_access_key_id = of-work
aws_secret_access_key = hush hush
aws_session_token = token
"""
CONFIG = """
[default]
region = eu-west-1
[profile work]
region = eu-north-1
endpoint_url = https://store.work
[profile sso]
sso_session = me
"""


@pytest.fixture
def profiles(tmp_path: Path) -> dict[str, str]:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws/credentials").write_text(CREDENTIALS)
    (tmp_path / ".aws/config").write_text(CONFIG)
    return {"HOME": str(tmp_path)}


def test_the_default_profile_gives_what_the_environment_does_not(profiles: dict[str, str]) -> None:
    assert s3_settings(profiles) == {
        "region": "eu-west-1",
        "access_key_id": "of-default",
        "secret_access_key": "hush",
    }
    assert s3_settings({**profiles, "AWS_ACCESS_KEY_ID": "x", "AWS_REGION": "y"}) == {}


def test_a_profile_that_is_named_is_taken(profiles: dict[str, str]) -> None:
    assert s3_settings({**profiles, "AWS_PROFILE": "work"}) == {
        "region": "eu-north-1",
        "endpoint": "https://store.work",
        "access_key_id": "of-work",
        "secret_access_key": "hush hush",
        "session_token": "token",
    }


@pytest.mark.parametrize("profile", ["sso", "nobody"])
def test_a_profile_without_keys_says_how_to_get_them(
    profiles: dict[str, str], profile: str
) -> None:
    with pytest.raises(ConfigError, match=f"export-credentials --profile {profile}"):
        s3_settings({**profiles, "AWS_PROFILE": profile})


def test_a_file_that_is_none_of_profiles_is_named_and_not_repeated(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("hush\n")
    with pytest.raises(ConfigError, match="keys is not a file of profiles") as caught:
        s3_settings({"AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "keys")})
    assert "hush" not in f"{caught.value}{caught.value.__cause__}"


@pytest.mark.parametrize(
    ("text", "fault", "said"),
    [
        (
            "non-2xx status code: 404 Not Found: <Code>ContainerNotFound</Code>",
            Fault.MISSING,
            "bucket b",
        ),
        ("non-2xx status code: 503 Busy: <Code>ServerBusy</Code>", Fault.BUSY, "throttles"),
        ("non-2xx status code: 429 Too Many Requests", Fault.BUSY, "throttles"),
        ("non-2xx status code: 403 Forbidden: ", Fault.CLOSED, "AZURE_STORAGE_ACCOUNT_KEY"),
        ("Error performing token request: HTTP error", Fault.KEYLESS, "AZURE_STORAGE_ACCOUNT_KEY"),
        (
            "HTTP error: error sending request kind: TimedOut",
            Fault.AWAY,
            "no answer came in time at there",
        ),
        (
            "Error performing GET http://h/redirect/path segment/ContainerNotFound: HTTP error",
            Fault.AWAY,
            "the connection broke off at there",
        ),
        ("something else\nDebug: hush", Fault.REFUSED, "obstore says Exception: something else"),
    ],
)
def test_words_of_stores_are_understood(text: str, fault: Fault, said: str) -> None:
    failure = judge(Exception(text), kind="az", bucket="b", endpoint="there")
    assert failure.fault is fault
    assert said in failure.reason
    assert "hush" not in failure.reason


def test_what_a_store_said_is_believed_for_a_while() -> None:
    now = [0.0]
    known = Known(30, lambda: now[0])
    info = FileInfo("x", 1, "v")
    known.note(info)
    now[0] = 29.0
    assert known.get("x") == info
    now[0] = 30.0
    assert known.get("x") is None
    known.note(info)
    known.forget("x", "y")
    assert known.get("x") is None


def test_no_version_is_believed_of_an_object_of_which_two_were_told() -> None:
    """Reads of the older one may still be under way, and would vouch for bytes of the newer."""
    now = [0.0]
    known = Known(30, lambda: now[0])
    old, new = FileInfo("x", 1, "old"), FileInfo("x", 1, "new")
    for said in (old, new, old, old):
        known.note(said)
    assert known.get("x") is None
    now[0] = 601.0
    known.note(new)
    assert known.get("x") == new


@pytest.mark.parametrize("tag", ["0x8D", '"0x8D"', 'W/"0x8D"'])
def test_a_version_is_the_same_in_lists_and_answers(tag: str) -> None:
    """Azure writes it in one way in the one, and in another in the other."""
    meta = {"path": "x", "size": 3, "e_tag": tag, "last_modified": datetime.now(UTC)}
    assert file_info(meta, "x") == FileInfo("x", 3, "0x8D")
