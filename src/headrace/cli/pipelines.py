"""Pipelines as commands take them: a JSON file, or a Python file that makes one."""

from __future__ import annotations

import runpy
from pathlib import Path

from headrace.core.errors import CallerError, HeadraceError, NotFoundError
from headrace.transform.pipeline import Pipeline

NAME = "pipeline"
"""What a Python file must call it."""


def read_pipeline(path: Path, *, allowed: tuple[str, ...] = ()) -> Pipeline:
    """Return the pipeline of a file; one that ends in ``.py`` is run for it.

    Args:
        path: The file.
        allowed: Import paths that user ops of a JSON file may have.

    Raises:
        NotFoundError: it cannot be read.
        CallerError: it fails, or makes no pipeline.
        ConfigError: the JSON is none of a pipeline.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        raise NotFoundError(f"pipeline file {path} cannot be read: {error.strerror}") from error
    if path.suffix != ".py":
        return Pipeline.from_json(text, allowed=allowed)
    return _from_python(path)


def _from_python(path: Path) -> Pipeline:
    try:
        made = runpy.run_path(str(path)).get(NAME)
    except HeadraceError:
        raise
    except Exception as error:
        raise CallerError(
            f"pipeline file {path} fails: {type(error).__name__}: {error}; it is run as python "
            "runs it"
        ) from error
    if not isinstance(made, Pipeline):
        raise CallerError(
            f"pipeline file {path} has no {NAME} = headrace.Pipeline([…]); name it so"
        )
    return made
