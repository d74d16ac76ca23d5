"""Makes torch tensors over bytes that were read of safetensors files."""

from __future__ import annotations

from typing import Any

import torch

from headrace.checkpoint.safetensors import DTYPES, TensorEntry
from headrace.client.checkpoint.tensorsource import Octets
from headrace.core.errors import CallerError


class TorchTensors:
    """Makes tensors that share memory with the bytes read, and puts them on a device."""

    def __init__(self, device: str | int | torch.device) -> None:
        """Take a device.

        Raises:
            CallerError: there is no such device.
        """
        try:
            self._device = torch.device(device)
        except RuntimeError as error:
            raise CallerError(f"{device!r} is no device of torch: {error}") from error

    @property
    def on_host(self) -> bool:
        """Whether the device is the host's memory."""
        return self._device.type == "cpu"

    def check(self, entry: TensorEntry) -> None:
        """Refuse dtypes that torch has not."""
        if not hasattr(torch, DTYPES[entry.dtype].torch_name):
            raise CallerError(
                f"torch {torch.__version__} has no type for {entry.dtype}, which tensor "
                f"{entry.name!r} is of; read its bytes with a library that has"
            )

    def make(self, entry: TensorEntry, shape: tuple[int, ...], octets: Octets) -> torch.Tensor:
        """Return a tensor over the bytes; of 4 bits, two numbers are one item, as torch has it."""
        dtype: torch.dtype = getattr(torch, DTYPES[entry.dtype].torch_name)
        if DTYPES[entry.dtype].bits == 4:
            shape = (*shape[:-1], shape[-1] // 2)
        if not octets.size:
            return torch.empty(shape, dtype=dtype)
        return torch.from_numpy(octets).view(dtype).reshape(shape)

    def take(self, tensor: Any, index: tuple[Any, ...]) -> Any:
        """Return a part of a tensor."""
        return tensor[index].contiguous()

    def place(self, tensor: Any) -> Any:
        """Return a tensor on the device."""
        return tensor.to(self._device)
