"""Trains data-parallel with JAX, on all devices of all processes.

    python examples/jax_loop.py photos
    XLA_FLAGS=--xla_force_host_platform_device_count=4 python examples/jax_loop.py photos

PHOTOS is a folder with a folder of pictures for each class, or any dataset with labels. Each
process has a loader of its own, which delivers its part of each global batch; where there are
several, start each as JAX's documentation of ``jax.distributed.initialize`` says.

A batch's arrays go to the devices as they are. On CPU devices JAX takes an array over without a
copy where it is aligned, and then reads it later: a loader's arrays belong to who receives them,
and are not written again. The parameters are donated to each step, so that they are in memory once.
"""

from __future__ import annotations

import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import headrace
from headrace import Pipeline, ops

EPOCHS, RATE, BATCH_SIZE = 3, 0.1, 8

Parameters = dict[str, jax.Array]


def loss_of(parameters: Parameters, pixels: jax.Array, labels: jax.Array) -> jax.Array:
    hidden = jax.nn.relu(pixels.reshape(len(pixels), -1) @ parameters["first"])
    odds = jax.nn.log_softmax(hidden @ parameters["second"])
    return -jnp.take_along_axis(odds, labels[:, None], 1).mean()


@partial(jax.jit, donate_argnums=0)
def train(
    parameters: Parameters, pixels: jax.Array, labels: jax.Array
) -> tuple[Parameters, jax.Array]:
    """Take a step; XLA adds the means over devices that the shardings ask for."""
    loss, slopes = jax.value_and_grad(loss_of)(parameters, pixels, labels)
    return jax.tree.map(lambda value, slope: value - RATE * slope, parameters, slopes), loss


def main(photos: str) -> None:
    mesh = Mesh(np.array(jax.devices()), ("data",))
    rows, everywhere = (NamedSharding(mesh, PartitionSpec(*axes)) for axes in (["data"], []))
    keys = jax.random.split(jax.random.key(0))
    parameters = {
        "first": jax.random.normal(keys[0], (3 * 32 * 32, 16)) * 0.01,
        "second": jax.random.normal(keys[1], (16, 2)) * 0.01,
    }
    parameters = jax.device_put(parameters, everywhere)
    pipeline = Pipeline([ops.DecodeImage(), ops.RandomResizedCrop(32), ops.ToFloat()])
    with headrace.Loader(
        photos,
        pipeline=pipeline,
        batch_size=BATCH_SIZE,
        seed=7,
        rank=jax.process_index(),
        world=jax.process_count(),
    ) as loader:
        for _ in range(EPOCHS):
            for batch in loader:
                pixels, labels = (
                    jax.make_array_from_process_local_data(rows, batch[name])
                    for name in ("image", "label")
                )
                parameters, loss = train(parameters, pixels, labels)
            print(f"epoch {batch.epoch}: loss {loss:.3f} on {len(jax.devices())} devices")
        print(loader.summary())


if __name__ == "__main__":
    main(sys.argv[1])
