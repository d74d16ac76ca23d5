"""Users' ops that misbehave on real samples, and behave on golden vectors. Imported by path."""

from __future__ import annotations

import os
import signal
import sys
import time

import numpy as np

SHAPE = (180, 240, 3)
"""Shape of the pictures that ``make_dataset`` writes."""


def hang(value: np.ndarray, draws: object) -> np.ndarray:
    if value.shape == SHAPE:
        time.sleep(3600)
    return value


def die(value: np.ndarray, draws: object) -> np.ndarray:
    if value.shape == SHAPE:
        os.kill(os.getpid(), signal.SIGKILL)
    return value


def devour(value: np.ndarray, draws: object) -> np.ndarray:
    return np.ones(1 << 34, np.uint8) if value.shape == SHAPE else value


def swell(value: np.ndarray, draws: object) -> np.ndarray:
    return np.full(3 << 20, value.flat[0], np.uint8) if value.shape == SHAPE else value


def die_always(value: np.ndarray, draws: object) -> np.ndarray:
    if sys.modules["__main__"].__spec__.name == "headrace.agent.worker":
        os.kill(os.getpid(), signal.SIGKILL)
    return value


def take_time(value: np.ndarray, draws: object) -> np.ndarray:
    begin_s = time.thread_time()
    while value.shape == SHAPE and time.thread_time() - begin_s < 0.05:
        pass
    return value
