"""Makes the golden vectors in src/headrace/transform/golden: small media that no one else owns.

Run with the development environment: ``python tools/make_golden.py``. The files need not come out
equal on another machine: what counts is what decoding them gives. Changing them makes
hosts of different releases refuse each other, so TRANSFORM_VERSION must be raised too.
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import av
import numpy as np
from PIL import Image

GOLDEN = Path(__file__).parent.parent / "src/headrace/transform/golden"
TEXT = "headrace keeps accelerators fed.\nÄpfel, naïve café, 東京 — 12,345.67 €; a\u0301 🙂\n"


def scene(width: int, height: int, moment: float = 0.0) -> Image.Image:
    """Return smooth colours, hard edges and noise: what codecs treat differently."""
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    waves = [np.sin(x / 17 + moment) + np.cos(y / 23), np.sin((x + y) / 31 - moment), np.cos(x / 9)]
    pixels = np.stack([np.clip(128 + 60 * wave, 0, 255) for wave in waves], axis=-1)
    pixels[height // 4 : height // 2, int(width * (0.2 + 0.1 * moment)) :: 16] = (250, 20, 20)
    noise = np.random.default_rng(7).normal(0, 6, pixels.shape)
    return Image.fromarray(np.clip(pixels + noise, 0, 255).astype(np.uint8))


def picture(image: Image.Image, kind: str, **options: object) -> bytes:
    """Return the picture in a file format."""
    target = BytesIO()
    image.save(target, kind, **options)
    return target.getvalue()


def clip(width: int, height: int, frames: int) -> bytes:
    """Return an H.264 MP4 with B frames and a keyframe every 12 frames."""
    target = BytesIO()
    with av.open(target, "w", format="mp4") as container:
        options = {"g": "12", "bf": "2", "crf": "34", "sc_threshold": "0"}
        stream = container.add_stream("libx264", rate=12, options=options)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for number in range(frames):
            frame = av.VideoFrame.from_image(scene(width, height, number / 6))
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return target.getvalue()


def main() -> None:
    """Write all vectors."""
    transparent = scene(97, 61)
    transparent.putalpha(Image.linear_gradient("L").resize(transparent.size))
    vectors = {
        "photo.jpg": picture(scene(463, 349), "JPEG", quality=55, subsampling=2),
        "dense.jpg": picture(scene(121, 83), "JPEG", quality=85, subsampling=0, progressive=True),
        "alpha.png": picture(transparent.quantize(64), "PNG", optimize=True),
        "lossy.webp": picture(scene(173, 131), "WEBP", quality=60),
        "clip.mp4": clip(112, 80, 30),
        "words.txt": TEXT.encode(),
    }
    for name, data in vectors.items():
        (GOLDEN / name).write_bytes(data)


if __name__ == "__main__":
    main()
