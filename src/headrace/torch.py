"""PyTorch users' entrance: ``headrace.torch.Loader`` delivers batches of tensors."""

from headrace.client.torch.batch import TensorBatch
from headrace.client.torch.loader import Loader

__all__ = ["Loader", "TensorBatch"]
