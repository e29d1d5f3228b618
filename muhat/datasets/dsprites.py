"""One heart of dSprites at 32 × 32 positions: a file that the user puts in place."""

from __future__ import annotations

import hashlib
import zipfile
from typing import NamedTuple

import numpy as np

from muhat.datasets.base import find_file

FILE = "dsprites_heart_positions.npz"
# Of the bytes of images_packed.
DIGEST = "d69edd3a3054e2a62262193b2024cf5d13f79b483a1ac99fdffee7e436069243"
CONTENT = (
    "It holds images_packed, uint8 (1024, 512): the 64 × 64 binary images of the heart of dSprites (scale "
    "0.5, orientation 0) at its 32 × 32 positions, eight pixels a byte, and provenance, uint8 (1024,)."
)


class Sprites(NamedTuple):
    """Binary images and how each is known.

    Attributes:
        images: uint8, (32, 32, 64, 64), indexed by position along columns, position along rows, row and
            column of the pixel.
        original: bool, (32, 32): whether the image is in the published file pixel by pixel; the others were
            derived from those by shifts, mirroring and interpolation, to about a tenth of a pixel each.
    """

    images: np.ndarray
    original: np.ndarray


def dsprites() -> Sprites:
    """The heart of dSprites, smallest and upright, at each of its 32 × 32 positions [MHHL17].

    muhat neither ships nor downloads it. It is read from ``dsprites_heart_positions.npz`` in the folder in
    the environment variable MUHAT_DATA, and its pixels are compared with a checksum.
    """
    path = find_file(FILE, "The dSprites heart", CONTENT)
    try:
        with np.load(path, allow_pickle=False) as file:
            packed, provenance = file["images_packed"], file["provenance"]
    except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is not the file expected ({error}): replace it. {CONTENT}") from error
    if packed.shape != (1024, 512) or packed.dtype != np.uint8 or provenance.shape != (1024,):
        raise ValueError(f"{path} has images_packed of {packed.dtype} {packed.shape}: replace it. {CONTENT}")
    if hashlib.sha256(np.ascontiguousarray(packed).tobytes()).hexdigest() != DIGEST:
        raise ValueError(f"{path} does not hold the expected pixels (their checksum differs): replace it.")
    images = np.unpackbits(packed, axis=1).reshape(32, 32, 64, 64)
    return Sprites(images, (provenance < 2).reshape(32, 32))
