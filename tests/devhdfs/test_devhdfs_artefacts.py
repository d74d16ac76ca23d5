from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from fake_programs import java, program

from headrace.core.errors import ConfigError, CorruptDataError, RemoteError
from headrace.devhdfs import artefacts, release
from headrace.devhdfs.artefacts import fetched_jars, find_classpath, find_java
from headrace.devhdfs.release import Jar

CONTENT = b"as pinned"


@pytest.fixture
def one_jar(monkeypatch: pytest.MonkeyPatch) -> Jar:
    digest = hashlib.sha256(CONTENT).hexdigest()
    jar = Jar(group="org.example", artifact="thing", version="1", sha256=digest)
    monkeypatch.setattr(artefacts, "JARS", (jar,))
    return jar


def surroundings(tmp_path: Path, maven: str | None) -> dict[str, str]:
    if maven is not None:
        program(tmp_path / "bin", "mvn", maven)
    return {
        "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin" if maven is not None else str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }


def left_in_cache(tmp_path: Path) -> list[str]:
    return [entry.name for entry in (tmp_path / "cache" / "headrace").iterdir()]


def test_without_java_the_error_says_what_to_install() -> None:
    with pytest.raises(ConfigError, match="install Java 17"):
        find_java({"PATH": "/nonexistent"})


def test_an_old_java_is_refused_by_its_version(tmp_path: Path) -> None:
    java(tmp_path, version="1.8.0_402")
    with pytest.raises(ConfigError, match=r"1\.8\.0_402.*needs Java 17"):
        find_java({"JAVA_HOME": str(tmp_path)})


def test_a_java_that_is_no_program_is_said(tmp_path: Path) -> None:
    java(tmp_path).write_bytes(b"garbage")
    with pytest.raises(ConfigError, match="point JAVA_HOME at another Java"):
        find_java({"JAVA_HOME": str(tmp_path)})


def test_java_home_goes_before_the_path(tmp_path: Path) -> None:
    wanted = java(tmp_path)
    assert find_java({"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}) == wanted


def test_without_maven_the_error_names_the_other_ways(tmp_path: Path, one_jar: Jar) -> None:
    with pytest.raises(ConfigError, match=r"install Maven.*--jars DIR, or HADOOP_HOME"):
        fetched_jars(environment=surroundings(tmp_path, None))


def test_jars_are_fetched_once(tmp_path: Path, one_jar: Jar) -> None:
    environment = surroundings(tmp_path, f"printf 'as pinned' > {one_jar.file_name}")
    said: list[str] = []
    folders = {fetched_jars(environment=environment, say=said.append) for _ in range(2)}
    assert len(folders) == 1
    assert len(said) == 1
    assert (folders.pop() / one_jar.file_name).read_bytes() == CONTENT


def test_a_truncated_download_is_refused_and_leaves_nothing(tmp_path: Path, one_jar: Jar) -> None:
    environment = surroundings(tmp_path, f"printf 'as pin' > {one_jar.file_name}")
    with pytest.raises(CorruptDataError, match=r"thing-1\.jar .* 6 bytes .*org/example/thing/1"):
        fetched_jars(environment=environment)
    assert left_in_cache(tmp_path) == []


def test_a_jar_that_was_damaged_later_is_fetched_again(tmp_path: Path, one_jar: Jar) -> None:
    environment = surroundings(tmp_path, f"printf 'as pinned' > {one_jar.file_name}")
    folder = fetched_jars(environment=environment)
    (folder / one_jar.file_name).write_bytes(b"damaged")
    assert fetched_jars(environment=environment) == folder
    assert (folder / one_jar.file_name).read_bytes() == CONTENT
    assert left_in_cache(tmp_path) == [folder.name]


def test_a_failed_download_says_what_maven_said(tmp_path: Path, one_jar: Jar) -> None:
    environment = surroundings(tmp_path, "echo '[ERROR] Could not transfer artifact'; exit 1")
    with pytest.raises(RemoteError, match="Could not transfer artifact; check the network"):
        fetched_jars(environment=environment)
    assert left_in_cache(tmp_path) == []


def test_a_directory_without_jars_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no jars in .* which --jars names"):
        find_classpath(tmp_path)


def test_a_hadoop_distribution_is_run_with_all_its_jars(tmp_path: Path) -> None:
    for part in ("common", "common/lib", "hdfs", "hdfs/lib"):
        folder = tmp_path / "share" / "hadoop" / part
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "some.jar").touch()
    classpath = find_classpath(environment={"HADOOP_HOME": str(tmp_path)})
    assert [Path(entry).parent.name for entry in classpath.split(":")] == [
        "common",
        "lib",
        "hdfs",
        "lib",
    ]


def test_the_pom_names_exactly_the_pinned_jars() -> None:
    assert release.pom().count("<dependency>") == len(release.JARS)
    for jar in release.JARS:
        assert f"<artifactId>{jar.artifact}</artifactId><version>{jar.version}<" in release.pom()
