"""A rendered room: what a camera in its middle sees as it turns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from muhat import _threads
from muhat._validation import check_count, check_positive

# A box of 2 × 2 and height 1.2, the eye in its middle at height 0.6.
HALF_WIDTH, HALF_HEIGHT = 1.0, 0.6
Colour = tuple[float, float, float]


def room(
    angle: Any, height: int = 36, width: int = 48, field: float = np.pi / 2, samples: int = 2
) -> np.ndarray:
    """Views of a textured room from its middle, (n, height, width, 3), values in [0, 1].

    Each wall has its own pattern and picture, so that every direction looks different: the angle can be
    told from the view. A stand-in for the DeepMind Lab video of [X22, Section 5.3], whose images were
    never published. Rays are cast onto walls, floor and ceiling; nothing is random.

    Args:
        angle: directions of view in radians, (n,), or one number; counter-clockwise, 2π is a full turn.
        height: rows of the image.
        width: columns of the image.
        field: the horizontal field of view in radians, below π.
        samples: rays a pixel along each side, whose mean is the pixel (against jagged edges).
    """
    angles = np.atleast_1d(np.asarray(angle, dtype=float))
    if angles.ndim != 1 or not np.isfinite(angles).all():
        raise ValueError(f"angle must be finite numbers of shape (n,), got shape {angles.shape}: drop NaN.")
    height, width = check_count(height, "height"), check_count(width, "width")
    samples = check_count(samples, "samples")
    check_positive(field, "field", "give an angle in radians below π, e.g. np.pi / 2", scalar=True)
    if field >= np.pi:
        raise ValueError(f"field must be below π, got {field}: a flat image sees less than half the room.")
    out = np.empty((len(angles), height, width, 3))
    rows, columns = height * samples, width * samples
    right, up = _screen(rows, columns, field)

    def work(views: slice) -> None:
        colours = _cast(angles[views, None, None], right, up)
        shape = (len(colours), height, samples, width, samples, 3)
        out[views] = colours.reshape(shape).mean(axis=(2, 4))

    _threads.run_blocks(work, _threads.row_blocks(len(angles), 3 * rows * columns, 1 << 20))
    return out


def _screen(rows: int, columns: int, field: float) -> tuple[np.ndarray, np.ndarray]:
    """Where rays pass the plane at distance 1: to the right, (1, columns), and upwards, (rows, 1)."""
    half = np.tan(field / 2)
    right = half * (2 * (np.arange(columns) + 0.5) / columns - 1)
    up = half * rows / columns * (1 - 2 * (np.arange(rows) + 0.5) / rows)
    return right[None, :], up[:, None]


def _cast(angle: np.ndarray, right: np.ndarray, up: np.ndarray) -> np.ndarray:
    """The colours that rays from the middle meet, (n, rows, columns, 3)."""
    x = np.cos(angle) + np.sin(angle) * right
    y = np.sin(angle) - np.cos(angle) * right
    to_wall = HALF_WIDTH / np.maximum(np.abs(x), np.abs(y))
    rise = up * to_wall
    shape = np.broadcast_shapes(to_wall.shape, up.shape)
    x, y, to_wall, rise = (np.broadcast_to(a, shape) for a in (x, y, to_wall, rise))
    out = np.empty((*shape, 3))
    on_wall = np.abs(rise) <= HALF_HEIGHT
    along_x = np.abs(x) >= np.abs(y)
    walls = (along_x & (x > 0), ~along_x & (y > 0), along_x & (x <= 0), ~along_x & (y <= 0))
    for i, (wall, paint) in enumerate(zip(walls, WALLS, strict=True)):
        seen = wall & on_wall
        # s grows from −1 to 1 along the wall as the eye turns on; t from 0 at the floor to 1 at the ceiling.
        across = (y, -x, -y, x)[i][seen] * to_wall[seen]
        out[seen] = paint(across / HALF_WIDTH, 0.5 + 0.5 * rise[seen] / HALF_HEIGHT)
    for below, paint in ((True, _floor), (False, _ceiling)):
        seen = ~on_wall & ((up < 0) == below)
        reach = HALF_HEIGHT / np.abs(np.broadcast_to(up, shape)[seen])
        out[seen] = paint(reach * x[seen], reach * y[seen])
    # Light falls off with distance, so that edges and corners show.
    distance = np.minimum(to_wall, HALF_HEIGHT / np.maximum(np.abs(up), 1e-12))
    return out * (1.1 - 0.25 * np.minimum(distance, 1.6))[..., None].clip(0, 1)


# Paint: functions of two coordinates (k,) that give colours (k, 3).


def _mix(where: np.ndarray, inside: Colour, outside: np.ndarray | Colour) -> np.ndarray:
    return np.where(where[:, None], inside, outside)


def _bricks(s: np.ndarray, t: np.ndarray) -> np.ndarray:
    course = np.floor(10 * t)
    joint = (np.mod(10 * t, 1) < 0.16) | (np.mod(4 * s + 0.5 * course, 1) < 0.08)
    out = _mix(joint, (0.74, 0.45, 0.38), (0.66, 0.27, 0.20))
    window = (np.abs(s + 0.25) < 0.34) & (np.abs(t - 0.58) < 0.26)
    sky = np.stack([0.35 + 0.4 * (1 - t), 0.6 + 0.3 * (1 - t), np.ones_like(t)], axis=1)
    bars = (np.abs(s + 0.25) < 0.025) | (np.abs(t - 0.58) < 0.02)
    out = np.where(window[:, None], _mix(bars, (0.95, 0.95, 0.92), sky), out)
    return _mix((s + 0.12) ** 2 + (1.2 * (t - 0.7)) ** 2 < 0.004, (1.0, 0.9, 0.3), out)


def _stripes(s: np.ndarray, t: np.ndarray) -> np.ndarray:
    out = _mix(np.mod(2.5 * s, 1) < 0.5, (0.36, 0.55, 0.72), (0.55, 0.70, 0.82))
    door = (np.abs(s - 0.35) < 0.24) & (t < 0.78)
    out = _mix(door, (0.36, 0.22, 0.12), out)
    panel = door & (np.abs(s - 0.35) < 0.16) & (np.abs(np.mod(t, 0.38) - 0.19) < 0.13)
    out = _mix(panel, (0.46, 0.29, 0.16), out)
    return _mix((s - 0.53) ** 2 + (t - 0.4) ** 2 < 0.0009, (0.95, 0.8, 0.3), out)


def _tiles(s: np.ndarray, t: np.ndarray) -> np.ndarray:
    check = (np.floor(4 * s) + np.floor(4 * t)) % 2 == 0
    out = _mix(check, (0.80, 0.82, 0.50), (0.55, 0.70, 0.40))
    frame = (np.abs(s + 0.1) < 0.42) & (np.abs(t - 0.56) < 0.3)
    out = _mix(frame, (0.2, 0.15, 0.1), out)
    canvas = (np.abs(s + 0.1) < 0.37) & (np.abs(t - 0.56) < 0.26)
    out = _mix(canvas, (0.96, 0.93, 0.86), out)
    for centre, level, size, colour in (
        (-0.25, 0.62, 0.14, (0.85, 0.15, 0.15)),
        (0.02, 0.5, 0.18, (0.15, 0.25, 0.7)),
        (0.12, 0.68, 0.09, (0.95, 0.75, 0.1)),
    ):
        disc = canvas & ((s - centre) ** 2 + (1.2 * (t - level)) ** 2 < size**2)
        out = _mix(disc, colour, out)
    return out


def _waves(s: np.ndarray, t: np.ndarray) -> np.ndarray:
    tone = 0.5 + 0.5 * np.sin(9 * t + 2.5 * np.sin(4 * s))
    out = np.stack([0.45 + 0.3 * tone, 0.25 + 0.15 * tone, 0.45 + 0.2 * (1 - tone)], axis=1)
    shelf = (s > -0.75) & (s < -0.05) & (t > 0.22) & (t < 0.86)
    level = np.mod(t - 0.22, 0.213)
    book = np.floor(14 * s)
    hue = np.mod(0.37 * book + 0.29 * np.floor((t - 0.22) / 0.213), 1)
    books = np.stack([0.45 + 0.3 * np.cos(2 * np.pi * (hue + shift)) for shift in (0, 0.33, 0.67)], axis=1)
    out = np.where(shelf[:, None], _mix(level < 0.035, (0.3, 0.18, 0.1), books), out)
    lamp = (np.abs(s - 0.5) < 0.5 * (0.9 - t)) & (t > 0.6) & (t < 0.82)
    out = _mix(lamp, (1.0, 0.95, 0.65), out)
    return _mix((np.abs(s - 0.5) < 0.02) & (t <= 0.6), (0.15, 0.15, 0.15), out)


def _floor(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    plank = np.floor(6 * y)
    tone = 0.5 + 0.12 * np.mod(0.61 * plank, 1) - 0.25 * (np.mod(6 * y, 1) < 0.08)
    return tone[:, None] * np.array([1.0, 0.72, 0.45])


def _ceiling(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    beam = np.mod(2.5 * x + 0.5, 1) < 0.25
    return _mix(beam, (0.62, 0.55, 0.45), (0.94, 0.94, 0.92))


Paint = Callable[[np.ndarray, np.ndarray], np.ndarray]
WALLS: tuple[Paint, ...] = (_bricks, _stripes, _tiles, _waves)
