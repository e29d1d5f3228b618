"""A room with a window, pictures and a chequered floor, as seen by a camera at its centre."""

from __future__ import annotations

import numpy as np
from scipy.ndimage import gaussian_filter

HALF = np.array([1.0, 1.0, 0.7])  # of the room's length, width and height
TEXELS = 128
# Of the walls +x, −x, +y, −y, the ceiling and the floor.
COLOURS = np.array(
    [
        [0.80, 0.45, 0.35],
        [0.35, 0.60, 0.75],
        [0.75, 0.70, 0.40],
        [0.45, 0.65, 0.40],
        [0.90, 0.88, 0.84],
        [0.45, 0.32, 0.24],
    ]
)
PICTURES = 7  # on each wall


def textures() -> np.ndarray:
    """What is on the six faces, (6, TEXELS, TEXELS, 3), in [0, 1]; always the same room."""
    rng = np.random.default_rng(2015)
    axis = (np.arange(TEXELS) + 0.5) / TEXELS
    u, v = np.meshgrid(axis, axis, indexing="ij")
    faces = np.tile(COLOURS[:, None, None], (1, TEXELS, TEXELS, 1))
    chequers = (np.floor(5 * u) + np.floor(5 * v)) % 2 == 1
    faces[5][chequers] = [0.72, 0.62, 0.45]
    for face in faces:
        for _ in range(PICTURES):
            (a, b), (w, h) = rng.uniform(0.08, 0.92, 2), rng.uniform(0.05, 0.16, 2)
            face[(abs(u - a) < w) & (abs(v - b) < h)] = rng.uniform(0.05, 0.95, 3)
    faces[0][(abs(u - 0.4) < 0.2) & (abs(v - 0.6) < 0.22)] = [0.93, 0.97, 1.0]  # the window
    # Light falls unevenly, in patches as large as a third of a wall, and fades towards the corners.
    light = gaussian_filter(rng.standard_normal((6, TEXELS, TEXELS)), (0, TEXELS / 6, TEXELS / 6))
    light *= 0.18 / light.std()
    faces *= (0.85 + light - 0.6 * ((u - 0.5) ** 2 + (v - 0.5) ** 2))[..., None]
    # A pixel of 20 spans five texels: finer detail would only flicker.
    return gaussian_filter(np.clip(faces, 0.0, 1.0), (0, 4.0, 4.0, 0))


def rays(height: int, width: int, view: float, samples: int) -> np.ndarray:
    """Directions in the camera's axes (ahead, left, up), (height, width, samples², 3).

    ``view`` is the angle from the left edge to the right; pixels are square and each is the mean over
    ``samples``² rays.
    """
    reach = np.tan(view / 2)
    across = reach * (1 - 2 * (np.arange(width * samples) + 0.5) / (width * samples))
    down = reach * height / width * (1 - 2 * (np.arange(height * samples) + 0.5) / (height * samples))
    up, left = np.meshgrid(down, across, indexing="ij")
    grid = np.stack([np.ones_like(up), left, up], axis=-1)
    grid = grid.reshape(height, samples, width, samples, 3).swapaxes(1, 2)
    return grid.reshape(height, width, samples**2, 3)


def render(
    R: np.ndarray,
    height: int = 20,
    width: int = 20,
    view: float = np.deg2rad(75.0),
    samples: int = 3,
    room: np.ndarray | None = None,
) -> np.ndarray:
    """Images of the room, (n, height · width · 3) in [0, 1], from rotations (n, 9), camera to world.

    Rows of pixels from the top, each from the left, red, green and blue side by side.
    """
    room = textures() if room is None else room
    directions = rays(height, width, view, samples).reshape(-1, 3)
    out = np.empty((len(R), height * width, 3))
    for start in range(0, len(R), 64):  # as many rays at once as caches hold
        part = R[start : start + 64].reshape(-1, 3, 3)
        seen = _look(room, directions @ part.transpose(0, 2, 1))
        out[start : start + len(part)] = seen.reshape(len(part), height * width, -1, 3).mean(axis=2)
    return out.reshape(len(R), -1)


def _look(room: np.ndarray, d: np.ndarray) -> np.ndarray:
    """The colour in each direction ``d`` (..., 3), seen from the centre."""
    scaled = d / HALF
    size = np.abs(scaled)
    axis = size.argmax(axis=-1)
    along = np.take_along_axis(scaled, axis[..., None], -1)
    on = scaled / np.abs(along)  # in [−1, 1]³, on a face
    face = 2 * axis + (along[..., 0] < 0)
    texel = np.minimum(((on + 1) * (TEXELS / 2)).astype(np.intp), TEXELS - 1)
    first = np.where(axis == 0, texel[..., 1], texel[..., 0])
    second = np.where(axis == 2, texel[..., 1], texel[..., 2])
    return room[face, first, second]
