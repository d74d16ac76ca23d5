"""tf.data in the training process, in the order it was asked for.

It decodes what the crop covers and nothing else, with its own op, and resizes without a filter
against aliasing, as its reference pipelines do.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tensorflow as tf

from bench.peers.serving import BATCH, READY, SHUFFLED, Settings, serve
from bench.pictures import AREA, ASPECT, MEAN, SIDE, STD

_MEAN = tf.constant([255 * one for one in MEAN], tf.float32)
_GAIN = tf.constant([1 / (255 * one) for one in STD], tf.float32)


def batches(folder: Path, settings: Settings) -> Iterator[Any]:
    """Yield batches, made by ``parallel`` calls at a time (-1: as many as it finds best)."""
    crops = shuffled(folder).map(crop, num_parallel_calls=settings["parallel"])
    floats = crops.map(normalised, num_parallel_calls=settings["parallel"])
    return iter(floats.batch(BATCH, drop_remainder=True).prefetch(READY))


def shuffled(folder: Path) -> tf.data.Dataset:
    """Return the files' names without end."""
    names = [str(file) for file in sorted(folder.glob("*.jpg"))]
    return tf.data.Dataset.from_tensor_slices(names).shuffle(SHUFFLED).repeat()


def crop(name: tf.Tensor) -> tf.Tensor:
    """Return a random crop of a file, ``float32 [SIDE, SIDE, 3]`` in [0, 255]."""
    data = tf.io.read_file(name)
    begin, size, _ = tf.image.sample_distorted_bounding_box(
        tf.image.extract_jpeg_shape(data),
        tf.constant([[[0.0, 0.0, 1.0, 1.0]]]),
        min_object_covered=0.0,
        aspect_ratio_range=ASPECT,
        area_range=AREA,
        max_attempts=10,
        use_image_if_no_bounding_boxes=True,
    )
    window = tf.concat([begin[:2], size[:2]], axis=0)
    part = tf.image.decode_and_crop_jpeg(data, window, channels=3)
    return tf.image.random_flip_left_right(tf.image.resize(part, [SIDE, SIDE]))


def normalised(picture: tf.Tensor) -> tf.Tensor:
    """Return it with the mean and deviation that models want."""
    return (tf.cast(picture, tf.float32) - _MEAN) * _GAIN


if __name__ == "__main__":
    serve(batches)
