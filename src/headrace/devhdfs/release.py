"""The Hadoop release that devhdfs runs: its jars, pinned by content."""

from __future__ import annotations

from dataclasses import dataclass

HADOOP_VERSION = "3.5.0"
JAVA_VERSION = 17
"""The oldest Java that this release runs on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Jar:
    """One Maven artefact and the only content that is accepted for it."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def file_name(self) -> str:
        """The name Maven gives it."""
        return f"{self.artifact}-{self.version}.jar"

    @property
    def repository_path(self) -> str:
        """Where it lies below a local Maven repository."""
        return f"{self.group.replace('.', '/')}/{self.artifact}/{self.version}"


def _hadoop(artifact: str, sha256: str) -> Jar:
    return Jar(group="org.apache.hadoop", artifact=artifact, version=HADOOP_VERSION, sha256=sha256)


JARS = (
    _hadoop(
        "hadoop-client-minicluster",
        "06772d24529e59939915979b3edba204d367750ef7dc5120411f35221dd4818c",
    ),
    _hadoop(
        "hadoop-client-api",
        "cc59446ec9ebaceae56fdb8d8c21477766dc5d426325642151c796bec5c4e6b7",
    ),
    _hadoop(
        "hadoop-client-runtime",
        "b7db3e60c5df1cd37c2995b3e0142e57487260706834e5325bbe0a5e683eedf1",
    ),
    Jar(
        group="org.slf4j",
        artifact="slf4j-api",
        version="1.7.36",
        sha256="d3ef575e3e4979678dc01bf1dcce51021493b4d11fb7f1be8ad982877c16a1c0",
    ),
    Jar(
        group="org.slf4j",
        artifact="slf4j-reload4j",
        version="1.7.36",
        sha256="ae6fdd5c9547896114d5ec7fa7503733b7d2890573d3886fb548b3119c4d3f67",
    ),
    Jar(
        group="ch.qos.reload4j",
        artifact="reload4j",
        version="1.2.25",
        sha256="e71115175c4b080cf51dd72097165ea001ff9fafdc4f79d88049d0b1ecca979c",
    ),
    Jar(
        group="commons-logging",
        artifact="commons-logging",
        version="1.3.5",
        sha256="6d7a744e4027649fbb50895df9497d109f98c766a637062fe8d2eabbb3140ba4",
    ),
)
"""108 MB: Hadoop's daemons with their dependencies shaded in, and logging."""


def pom() -> str:
    """Return the Maven project that names exactly these jars and nothing they depend on."""
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0">'
        "<modelVersion>4.0.0</modelVersion>"
        "<groupId>headrace</groupId><artifactId>devhdfs</artifactId>"
        "<version>1</version><packaging>pom</packaging>\n<dependencies>\n"
        + "\n".join(_dependency(jar) for jar in JARS)
        + "\n</dependencies></project>\n"
    )


def _dependency(jar: Jar) -> str:
    return (
        f"<dependency><groupId>{jar.group}</groupId><artifactId>{jar.artifact}</artifactId>"
        f"<version>{jar.version}</version><exclusions><exclusion><groupId>*</groupId>"
        "<artifactId>*</artifactId></exclusion></exclusions></dependency>"
    )
