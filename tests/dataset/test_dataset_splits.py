"""Folders of splits are told from folders of classes."""

from __future__ import annotations

import pytest

from headrace.dataset.splits import splits_complaint


@pytest.mark.parametrize("classes", [(), ("cat", "dog"), ("bus", "car", "train")])
def test_classes_are_no_splits(classes: tuple[str, ...]) -> None:
    assert splits_complaint("/photos", classes) is None


@pytest.mark.parametrize("classes", [("train",), ("Test", "Train"), ("train", "val")])
def test_splits_are_told_and_one_is_named(classes: tuple[str, ...]) -> None:
    said = splits_complaint("s3://photos/", classes)
    assert said is not None
    assert said.endswith(f"such as s3://photos/{classes[0]}")
