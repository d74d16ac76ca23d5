"""What every storage backend must do. A backend's test class inherits it and gives a storage."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from array import array
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.core.errors import CallerError, HeadraceError, NotFoundError, StorageError
from headrace.storage.port import Assembles, ByteRange, Locates, Observes, Replicates, Storage

CONTENT = bytes(range(256)) * 40


class StorageContract(ABC):
    """Inherit, and return an empty storage from ``make``."""

    renames_by_copying = False
    """A renamed file counts as written when it was renamed."""

    @abstractmethod
    def make(self, place: Path) -> Storage:
        """Return a storage whose root is empty."""

    @pytest.fixture
    def storage(self, tmp_path: Path) -> Storage:
        return self.make(tmp_path)

    def test_what_was_written_is_read_back(self, storage: Storage) -> None:
        info = storage.write("a/b/c.bin", CONTENT)
        assert (info.path, info.size) == ("a/b/c.bin", len(CONTENT))
        assert storage.read("a/b/c.bin") == CONTENT

    def test_an_empty_file_is_a_file(self, storage: Storage) -> None:
        storage.write("empty", b"")
        assert storage.read("empty") == b""
        assert storage.read("empty", 0, 0) == b""
        assert storage.stat("empty").size == 0

    @settings(
        max_examples=40,
        deadline=None,
        derandomize=True,
        suppress_health_check=[
            HealthCheck.function_scoped_fixture,
            HealthCheck.differing_executors,
        ],
    )
    @given(st.data())
    def test_any_range_is_that_slice(self, storage: Storage, data: st.DataObject) -> None:
        storage.write("x", CONTENT)
        starts = data.draw(st.lists(st.integers(0, len(CONTENT)), max_size=6))
        ranges = [
            ByteRange(start, data.draw(st.integers(0, len(CONTENT) - start))) for start in starts
        ]
        wanted = [CONTENT[r.offset : r.offset + r.length] for r in ranges]
        assert list(storage.read_ranges("x", ranges)) == wanted
        assert [storage.read("x", r.offset, r.length) for r in ranges] == wanted

    def test_reading_from_an_offset_without_a_length_goes_to_the_end(
        self, storage: Storage
    ) -> None:
        storage.write("x", CONTENT)
        assert storage.read("x", 1000) == CONTENT[1000:]

    def test_reading_past_the_end_is_an_error_that_says_where_the_end_is(
        self, storage: Storage
    ) -> None:
        storage.write("x", b"12345")
        with pytest.raises(StorageError, match="5"):
            storage.read("x", 3, 10)
        with pytest.raises(StorageError, match="5"):
            storage.read_ranges("x", [ByteRange(0, 2), ByteRange(100, 1)])

    def test_a_missing_file_is_not_found_by_any_method(self, storage: Storage) -> None:
        for ask in (storage.stat, storage.read, lambda path: storage.read_ranges(path, [])):
            with pytest.raises(NotFoundError, match="nowhere"):
                ask("nowhere/file")
        with pytest.raises(NotFoundError):
            list(storage.list("nowhere"))
        with pytest.raises(NotFoundError):
            storage.rename("nowhere", "somewhere")

    def test_files_are_listed_recursively_in_path_order(self, storage: Storage) -> None:
        paths = ["a.txt", "a/b", "a-b", "a/c/d", "b", ".hidden/x", "a0"]
        for path in paths:
            storage.write(path, path.encode())
        assert [info.path for info in storage.list()] == sorted(paths)
        assert all(info == storage.stat(info.path) for info in storage.list())

    def test_a_prefix_lists_what_is_below_it(self, storage: Storage) -> None:
        for path in ("a/x", "a/b/y", "ab/z"):
            storage.write(path, b"")
        assert [info.path for info in storage.list("a")] == ["a/b/y", "a/x"]

    def test_hidden_files_and_folders_are_listed_unless_they_are_not_asked_for(
        self, storage: Storage
    ) -> None:
        for path in (".x", ".git/x", "a/.x", "a/.b/x", "a/x", "x"):
            storage.write(path, b"")
        assert len(list(storage.list())) == 6
        assert [info.path for info in storage.list(hidden=False)] == ["a/x", "x"]
        assert [info.path for info in storage.list(".git", hidden=False)] == [".git/x"]

    def test_a_folder_is_listed_alone_where_what_is_below_is_not_asked_for(
        self, storage: Storage
    ) -> None:
        for path in ("a/x", "a/b/y", "a/.z", "x"):
            storage.write(path, b"")
        found = [info.path for info in storage.list("a", recursive=False)]
        assert found == ["a/.z", "a/x"]
        assert list(storage.list(recursive=False)) == [storage.stat("x")]

    def test_an_empty_store_lists_nothing(self, storage: Storage) -> None:
        assert list(storage.list()) == []

    def test_the_version_changes_with_the_content(self, storage: Storage) -> None:
        before = storage.write("x", b"one")
        assert storage.stat("x") == before
        after = storage.write("x", b"two")
        assert after.version != before.version
        assert storage.read("x") == b"two"

    def test_files_tell_by_one_clock_when_they_were_written(self, storage: Storage) -> None:
        written = [storage.write(name, b"").modified_s for name in ("a", "b")]
        storage.rename("a", "c")
        told = [storage.stat(name).modified_s for name in ("c", "b")]
        assert told[self.renames_by_copying :] == written[self.renames_by_copying :]
        assert [info.modified_s for info in storage.list()] == told[::-1]
        assert written[0] <= told[0] < written[0] + 60
        assert written[0] <= written[1] < written[0] + 60

    def test_rename_moves_and_replaces(self, storage: Storage) -> None:
        storage.write("old", b"new content")
        storage.write("deep/target", b"old content")
        storage.rename("old", "deep/target")
        assert storage.read("deep/target") == b"new content"
        with pytest.raises(NotFoundError):
            storage.stat("old")

    def test_delete_removes_and_may_be_repeated(self, storage: Storage) -> None:
        storage.write("x", b"")
        storage.delete("x")
        storage.delete("x")
        assert list(storage.list()) == []

    @pytest.mark.parametrize("path", ["../x", "a/../../x", "/etc/passwd", "a/\0b"])
    def test_paths_that_leave_the_root_are_refused(self, storage: Storage, path: str) -> None:
        for ask in (storage.read, storage.stat, storage.delete, lambda p: storage.write(p, b"")):
            with pytest.raises(HeadraceError, match="leaves the root"):
                ask(path)

    def test_a_reader_sees_the_old_bytes_or_the_new_ones(self, storage: Storage) -> None:
        versions = [bytes([n]) * 50_000 for n in range(20)]
        storage.write("x", versions[0])
        done = threading.Event()

        def keep_writing() -> None:
            for version in versions:
                storage.write("x", version)
            done.set()

        writer = threading.Thread(target=keep_writing)
        writer.start()
        seen = []
        while not done.is_set():
            seen.append(storage.read("x", 0, 50_000))
        writer.join()
        assert seen
        assert all(len(set(data)) == 1 for data in seen)

    def test_many_readers_at_once_get_what_they_asked_for(self, storage: Storage) -> None:
        storage.write("x", CONTENT)
        storage.write("y", CONTENT[::-1])

        def read(start: int) -> bool:
            whole, path = (CONTENT, "x") if start % 2 else (CONTENT[::-1], "y")
            ranges = [ByteRange(start, 100), ByteRange(start * 10, 1000)]
            wanted = [whole[r.offset : r.offset + r.length] for r in ranges]
            return list(storage.read_ranges(path, ranges)) == wanted

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(read, range(200)))

    def test_a_file_that_was_read_and_is_replaced_is_read_and_described_anew(
        self, storage: Storage
    ) -> None:
        storage.write("x", b"short")
        assert storage.read("x") == b"short"
        before = storage.stat("x")
        storage.write("other", CONTENT)
        storage.rename("other", "x")
        assert storage.stat("x").size == len(CONTENT)
        assert storage.stat("x") != before
        assert storage.read("x") == CONTENT

    def test_a_file_that_was_read_and_is_deleted_is_gone(self, storage: Storage) -> None:
        storage.write("x", CONTENT)
        assert storage.read("x", 0, 5) == CONTENT[:5]
        storage.delete("x")
        for ask in (storage.read, storage.stat):
            with pytest.raises(NotFoundError):
                ask("x")

    def test_names_with_spaces_and_signs_are_names_like_others(self, storage: Storage) -> None:
        paths = ["a b", "a%20b", "a+b&c=d", "ä/ö?x#y"]
        for path in paths:
            storage.write(path, path.encode())
        assert [info.path for info in storage.list()] == sorted(paths)
        assert [storage.read(path) for path in paths] == [path.encode() for path in paths]

    def test_a_folder_is_no_file(self, storage: Storage) -> None:
        storage.write("a/b", b"")
        for ask in (storage.read, storage.stat, storage.delete):
            with pytest.raises(NotFoundError):
                ask("a")
        assert [info.path for info in storage.list()] == ["a/b"]

    def test_the_blocks_of_a_file_cover_it_in_order(self, storage: Storage) -> None:
        if not isinstance(storage, Locates):
            pytest.skip("this store does not tell where blocks are")
        storage.write("a b/x", CONTENT)
        blocks = storage.locations("a b/x")
        assert blocks[0].offset == 0
        assert sum(block.length for block in blocks) == len(CONTENT)
        assert all(replica.address for block in blocks for replica in block.replicas)
        storage.write("empty", b"")
        assert storage.locations("empty") == []
        with pytest.raises(NotFoundError):
            storage.locations("nowhere")

    def test_the_number_of_copies_can_be_changed(self, storage: Storage) -> None:
        if not isinstance(storage, Replicates):
            pytest.skip("this store keeps no number of copies")
        storage.write("x", CONTENT)
        storage.set_replication("x", 1)
        assert storage.replication("x") == 1
        with pytest.raises(NotFoundError):
            storage.replication("nowhere")
        with pytest.raises(NotFoundError):
            storage.set_replication("nowhere", 2)
        with pytest.raises(StorageError):
            storage.set_replication("x", 1_000_000)

    def test_writing_leaves_nothing_else_behind(self, storage: Storage) -> None:
        storage.write("x", b"1")
        storage.write("x", b"2")
        assert [info.path for info in storage.list()] == ["x"]

    def test_a_file_written_in_pieces_appears_whole_when_it_is_committed(
        self, storage: Storage
    ) -> None:
        storage.write("a/x", b"old")
        pieces = [b"", b"a few", memoryview(CONTENT), bytearray(5 << 20), array("q", range(9))]
        whole = b"".join(bytes(memoryview(piece)) for piece in pieces)
        with storage.create("a/x") as writer:
            for piece in pieces:
                writer.write(piece)
            assert storage.read("a/x") == b"old"
            info = writer.commit()
            writer.abort()
        assert (info.path, info.size) == ("a/x", len(whole))
        assert info == storage.stat("a/x")
        assert storage.read("a/x") == whole
        assert [info.path for info in storage.list()] == ["a/x"]

    def test_a_file_without_pieces_is_empty(self, storage: Storage) -> None:
        with storage.create("empty") as writer:
            writer.commit()
        assert storage.read("empty") == b""

    def test_a_file_that_is_not_committed_leaves_nothing_behind(self, storage: Storage) -> None:
        storage.write("x", b"old")
        with storage.create("x") as writer:
            writer.write(CONTENT)
        writer.abort()
        with pytest.raises(ZeroDivisionError), storage.create("new") as writer:
            writer.write(CONTENT)
            raise ZeroDivisionError
        assert [info.path for info in storage.list()] == ["x"]
        assert storage.read("x") == b"old"

    @pytest.mark.parametrize("end", ["commit", "abort"])
    def test_a_writer_that_has_ended_writes_nothing_more(self, storage: Storage, end: str) -> None:
        writer = storage.create("x")
        getattr(writer, end)()
        with pytest.raises(CallerError, match="create"):
            writer.write(bytes(8 << 20))
        with pytest.raises(CallerError, match="create"):
            writer.commit()

    def test_a_folder_is_deleted_with_all_below_it(self, storage: Storage) -> None:
        for path in ("a/b/x", "a/.y", "a/b/c/z", "ab", "b/a"):
            storage.write(path, b"1")
        assert storage.read("a/b/x") == b"1"
        storage.delete_folder("a")
        storage.delete_folder("a")
        assert [info.path for info in storage.list()] == ["ab", "b/a"]
        with pytest.raises(NotFoundError):
            storage.read("a/b/x")
        with pytest.raises(NotFoundError, match="folder"):
            storage.delete_folder("ab")

    @pytest.mark.parametrize("path", ["", ".", "./", "a/.."])
    def test_the_root_is_not_deleted(self, storage: Storage, path: str) -> None:
        storage.write("a/x", b"1")
        with pytest.raises(CallerError, match="root"):
            storage.delete_folder(path)
        assert storage.read("a/x") == b"1"

    def test_parts_are_joined_in_their_order_and_are_gone(self, storage: Storage) -> None:
        if not isinstance(storage, Assembles):
            pytest.skip("this store cannot join files")
        pieces = [b"", CONTENT * 150, b"x" * 700_001, b"", b"end"]
        names = [f"staging/part {n}" for n in (3, 1, 5, 2, 4)]
        for name, piece in zip(names, pieces, strict=True):
            storage.write(name, piece)
        storage.write("deep/whole", b"old")
        assert storage.read("deep/whole") == b"old"
        info = storage.assemble("deep/whole", names)
        assert storage.read("deep/whole") == b"".join(pieces)
        assert info == storage.stat("deep/whole")
        assert [info.path for info in storage.list()] == ["deep/whole"]
        with pytest.raises(NotFoundError):
            storage.assemble("deep/whole", names)

    @pytest.mark.parametrize("piece", [b"", b"alone"])
    def test_a_single_part_becomes_the_file(self, storage: Storage, piece: bytes) -> None:
        if not isinstance(storage, Assembles):
            pytest.skip("this store cannot join files")
        storage.write("staging/x", piece)
        assert storage.assemble("x", ["staging/x"]) == storage.stat("x")
        assert storage.read("x") == piece

    def test_what_cannot_be_joined_stays_as_it_is(self, storage: Storage) -> None:
        if not isinstance(storage, Assembles):
            pytest.skip("this store cannot join files")
        for path in ("a/x", "a/y", "b/x"):
            storage.write(path, b"1")
        for parts in ([], ["a/x", "b/x"], ["a/x", "a/x"]):
            with pytest.raises(CallerError, match="joined"):
                storage.assemble("whole", parts)
        with pytest.raises(NotFoundError, match="a/z"):
            storage.assemble("whole", ["a/x", "a/y", "a/z"])
        assert [info.path for info in storage.list()] == ["a/x", "a/y", "b/x"]

    def test_a_store_that_can_be_observed_has_nodes_with_room(self, storage: Storage) -> None:
        if not isinstance(storage, Observes):
            pytest.skip("this store has no nodes")
        state = storage.state()
        assert state.nodes
        for node in state.nodes:
            assert 0 < node.free_bytes < node.capacity_bytes
            assert node.transfers >= 0
            assert ":" in node.address
        assert state.blocks_per_s > 0
        assert state.streams_per_node > 0
