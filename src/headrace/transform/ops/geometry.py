"""Crop, resize and flip, with torchvision's meaning on PIL images."""

from __future__ import annotations

from math import exp, log, sqrt

from PIL import Image

from headrace.core.draws import Draws
from headrace.core.errors import ConfigError
from headrace.transform import cost
from headrace.transform.op import MEDIA, Framing, PictureOp
from headrace.transform.pictures import Pictures
from headrace.transform.spec import Spec, picture_size
from headrace.transform.window import Box, Interpolation, Size, Window

_ATTEMPTS = 10


class Resize(Framing, frozen=True):
    """Resize to ``(height, width)``, or so that the shorter side is ``size``."""

    size: int | tuple[int, int]
    interpolation: Interpolation = "bilinear"
    fields: tuple[str, ...] = MEDIA

    def __post_init__(self) -> None:
        _check_size("resize", self.size)

    def window(self, width: int, height: int, draws: Draws) -> Window:  # noqa: ARG002 - nothing random
        """Return the whole picture at the new size."""
        return Window((0, 0, width, height), self._result(width, height), self.interpolation)

    def typical(self, width: float, height: float) -> tuple[float, float, float, float]:
        """Return the whole picture and its new size [px]."""
        return (width, height, *self._result(width, height))

    def cost_s(self, spec: Spec) -> float:
        """Return the estimated CPU time [s]."""
        return cost.frames(spec) * cost.window_s(self.typical(*picture_size(spec)))

    def _result(self, width: float, height: float) -> tuple[int, int]:
        if not isinstance(self.size, int):
            return self.size[1], self.size[0]
        if width <= height:
            return self.size, max(1, int(self.size * height / max(width, 1)))
        return max(1, int(self.size * width / max(height, 1))), self.size


class CenterCrop(Framing, frozen=True):
    """Cut ``(height, width)``, or a square, out of the middle; what is missing is black."""

    size: int | tuple[int, int]
    fields: tuple[str, ...] = MEDIA

    def __post_init__(self) -> None:
        _check_size("center_crop", self.size)

    def window(self, width: int, height: int, draws: Draws) -> Window:  # noqa: ARG002 - nothing random
        """Return the middle of the picture."""
        wide, high = _width_height(self.size)
        left, top = _middle(width, wide), _middle(height, high)
        return Window((left, top, left + wide, top + high), (wide, high))

    def typical(self, width: float, height: float) -> tuple[float, float, float, float]:  # noqa: ARG002
        """Return the crop, twice: nothing is resized [px]."""
        wide, high = _width_height(self.size)
        return wide, high, wide, high

    def cost_s(self, spec: Spec) -> float:
        """Return the estimated CPU time [s]."""
        return cost.frames(spec) * cost.window_s(self.typical(*picture_size(spec)))


class RandomResizedCrop(Framing, frozen=True):
    """Cut a box of random area and aspect ratio at a random place and resize it.

    Ten boxes are drawn; if none fits, the largest box in the middle with an allowed ratio is
    taken. This is torchvision's rule; the numbers come from the sample's own draws.
    """

    size: int | tuple[int, int]
    scale: tuple[float, float] = (0.08, 1.0)
    """Smallest and largest area of the box, as a share of the picture's."""

    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    """Smallest and largest width / height of the box."""

    interpolation: Interpolation = "bilinear"
    fields: tuple[str, ...] = MEDIA

    def __post_init__(self) -> None:
        _check_size("random_resized_crop", self.size)
        for name, (low, high) in (("scale", self.scale), ("ratio", self.ratio)):
            if not 0 < low <= high:
                raise ConfigError(
                    f"random_resized_crop.{name}=({low:g}, {high:g}) must be (smallest, largest), "
                    "both above 0"
                )

    def window(self, width: int, height: int, draws: Draws) -> Window:
        """Return a random box and the op's size."""
        box = self._random_box(width, height, draws) or self._central_box(width, height)
        return Window(box, _width_height(self.size), self.interpolation)

    def typical(self, width: float, height: float) -> tuple[float, float, float, float]:
        """Return a box of mean area and the op's size [px]."""
        side = sqrt(min(1.0, sum(self.scale) / 2))
        return (width * side, height * side, *_width_height(self.size))

    def cost_s(self, spec: Spec) -> float:
        """Return the estimated CPU time [s]."""
        return cost.frames(spec) * cost.window_s(self.typical(*picture_size(spec)))

    def _random_box(self, width: int, height: int, draws: Draws) -> Box | None:
        area = width * height
        for _ in range(_ATTEMPTS):
            target = area * draws.uniform(*self.scale)
            aspect = exp(draws.uniform(log(self.ratio[0]), log(self.ratio[1])))
            wide, high = round(sqrt(target * aspect)), round(sqrt(target / aspect))
            if 0 < wide <= width and 0 < high <= height:
                top = draws.integer(height - high + 1)
                left = draws.integer(width - wide + 1)
                return left, top, left + wide, top + high
        return None

    def _central_box(self, width: int, height: int) -> Box:
        wide, high = width, height
        if width / height < self.ratio[0]:
            high = max(1, round(width / self.ratio[0]))
        elif width / height > self.ratio[1]:
            wide = max(1, round(height * self.ratio[1]))
        left, top = (width - wide) // 2, (height - high) // 2
        return left, top, left + wide, top + high


class RandomHorizontalFlip(PictureOp, frozen=True):
    """Mirror left and right with probability ``p``; all frames of a clip alike."""

    p: float = 0.5
    fields: tuple[str, ...] = MEDIA

    def __post_init__(self) -> None:
        if not 0 <= self.p <= 1:
            raise ConfigError(f"random_horizontal_flip.p={self.p:g} must lie in [0, 1]")

    def apply(self, pictures: Pictures, draws: Draws) -> Pictures:
        """Return the pictures, mirrored or not."""
        if not draws.chance(self.p):
            return pictures
        return pictures.map(lambda image: image.transpose(Image.Transpose.FLIP_LEFT_RIGHT))

    def cost_s(self, spec: Spec) -> float:
        """Return the estimated CPU time [s]."""
        return self.p * cost.FLIP * cost.pixels(spec)


def _width_height(size: int | tuple[int, int]) -> Size:
    return (size, size) if isinstance(size, int) else (size[1], size[0])


def _middle(length: int, wanted: int) -> int:
    if wanted > length:
        return -((wanted - length) // 2)
    return round((length - wanted) / 2)


def _check_size(name: str, size: int | tuple[int, int]) -> None:
    sides = size if isinstance(size, tuple | list) else (size, size)
    if len(sides) != 2 or any(isinstance(s, bool) or not isinstance(s, int) for s in sides):
        raise ConfigError(f"{name}.size={size!r} must be a whole number or (height, width)")
    if min(sides) < 1:
        raise ConfigError(f"{name}.size={size} must be at least 1 px")
