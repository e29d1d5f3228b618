"""The two systems of [X22, Section 5.3] that are seen through images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from muhat.datasets import dsprites, orbit, orbit_step, room
from papers.xu2022.baselines import particles

PIXEL_NOISE = 0.1
# dSprites: noise of the state and of the position; positions on a grid of 32 × 32 over [−1.5, 1.5]².
POSITION_NOISE, SIDE, GRID = (0.2, 0.05), 1.5, 32
# The room: turn in one step, noise of the direction and of the camera.
TURN, ANGLE_NOISE = 0.4, (0.2, 0.2)


class Video(NamedTuple):
    """Images ``X`` (T, pixels), hidden states ``Z`` (T, 2), and what a perfect eye would read of each image:
    the noisy state ``seen`` (T, 2)."""

    X: np.ndarray
    Z: np.ndarray
    seen: np.ndarray


def sprites(T: int, seed: int) -> Video:
    """A heart that circles with an oscillating radius; it stands at the nearest of 32 × 32 positions."""
    rng = np.random.default_rng(seed)
    path = orbit(T, True, POSITION_NOISE, random_state=rng)
    at = np.clip(np.rint((path.X + SIDE) / (2 * SIDE) * (GRID - 1)), 0, GRID - 1).astype(int)
    images = dsprites().images[at[:, 0], at[:, 1]].reshape(T, -1)
    noisy = images + PIXEL_NOISE * rng.standard_normal(images.shape)
    return Video(noisy, path.Z, 2 * SIDE * at / (GRID - 1) - SIDE)


def turning(T: int, seed: int) -> Video:
    """A camera that turns about itself in a room; the state is its direction, (cos θ, sin θ)."""
    rng = np.random.default_rng(seed)
    angle = np.cumsum(TURN + ANGLE_NOISE[0] * rng.standard_normal(T))
    camera = angle + ANGLE_NOISE[1] * rng.standard_normal(T)
    images = room(camera).reshape(T, -1)
    return Video(images + PIXEL_NOISE * rng.standard_normal(images.shape), _unit(angle), _unit(camera))


def _unit(angle: np.ndarray) -> np.ndarray:
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


def sprites_floor(seen: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Means of the particle filter that knows the model and reads the position without error, (T, 2)."""
    sd = np.hypot(POSITION_NOISE[1], 2 * SIDE / (GRID - 1) / np.sqrt(12))  # the grid rounds
    return particles(seen, partial(orbit_step, oscillatory=True), (POSITION_NOISE[0], sd), rng)


def turning_floor(seen: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Means of the Kalman filter on the angle that knows the model and reads the camera without error."""
    mean, variance, out = 0.0, 1e6, []
    for angle in np.arctan2(seen[:, 1], seen[:, 0]):
        mean, variance = mean + TURN, variance + ANGLE_NOISE[0] ** 2
        gain = variance / (variance + ANGLE_NOISE[1] ** 2)
        gap = (angle - mean + np.pi) % (2 * np.pi) - np.pi
        mean, variance = mean + gain * gap, (1 - gain) * variance
        out.append(np.exp(-variance / 2) * np.array([np.cos(mean), np.sin(mean)]))
    return np.array(out)


@dataclass(frozen=True)
class System:
    """How a system is made, what its images are, the filter that knows it, and the LSTM's training."""

    make: Callable[[int, int], Video]
    shape: tuple[int, int, int]
    floor: Callable[[np.ndarray, np.random.Generator], np.ndarray]
    iterations: int
    stopping: bool


SYSTEMS = {
    "dSprites": System(sprites, (64, 64, 1), sprites_floor, 150, False),
    "room": System(turning, (36, 48, 3), turning_floor, 300, True),
}
