from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core.errors import CallerError, NotFoundError
from headrace.storage.opening import open_storage


def test_a_path_and_its_file_urls_open_the_same_directory(tmp_path: Path) -> None:
    folder = tmp_path / "with space"
    folder.mkdir()
    urls = [str(folder), f"file:{tmp_path}/with%20space", f"file://{tmp_path}/with%20space"]
    assert {open_storage(url).url for url in urls} == {str(folder.resolve())}


def test_a_relative_path_and_the_home_directory_are_understood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert open_storage("data").url == open_storage("~/data").url == str(tmp_path / "data")


def test_a_directory_with_a_colon_in_its_name_is_a_path(tmp_path: Path) -> None:
    (tmp_path / "v:1").mkdir()
    assert open_storage(f"{tmp_path}/v:1").url.endswith("v:1")


def test_a_typo_names_the_nearest_directory(tmp_path: Path) -> None:
    (tmp_path / "imagenet").mkdir()
    with pytest.raises(NotFoundError, match=r"did you mean .*/imagenet\?"):
        open_storage(str(tmp_path / "imagnet"))
    with pytest.raises(NotFoundError, match=r"did you mean .*/imagenet\?"):
        open_storage(str(tmp_path / "imagnet" / "train"))


def test_nothing_alike_is_not_guessed(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="check the spelling"):
        open_storage(str(tmp_path / "zzz"))


@pytest.mark.parametrize(
    ("url", "hint"),
    [("flie:/data", "did you mean file:"), ("gopher://bucket/x", "plain path or abfs:")],
)
def test_an_unknown_scheme_names_what_is_supported(url: str, hint: str) -> None:
    with pytest.raises(CallerError, match=hint):
        open_storage(url)


def test_a_file_url_with_a_host_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CallerError, match="host 'data'"):
        open_storage("file://data/images")


def test_an_empty_path_is_not_the_working_directory() -> None:
    with pytest.raises(CallerError, match="empty"):
        open_storage("")
