"""One example is a sample: a number from the distribution of its points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import muhat as mh
from muhat.cli.page import Page
from muhat.report.bags import predictions

TITLE = "When an example is a sample"
LEARN, CHECK = 120, 80


@dataclass(frozen=True)
class Held:
    """What was predicted of bags left out, and the truth."""

    value: np.ndarray
    std: np.ndarray
    truth: np.ndarray


def shifts(count: int, rng: np.random.Generator, size: int = 150) -> tuple[list[np.ndarray], np.ndarray]:
    """Samples of mean 0 and variance 1, and how far apart the two modes are that they come from."""
    apart = rng.uniform(0.4, 0.95, count)
    side = rng.choice([-1.0, 1.0], (count, size))
    x = apart[:, None] * side + np.sqrt(1 - apart[:, None] ** 2) * rng.standard_normal((count, size))
    return [part[:, None] for part in x], apart


def learn(bags: list[np.ndarray], y: np.ndarray, new: list[np.ndarray]) -> tuple[Any, Any]:
    stages = (mh.Fourier(240), mh.Nystrom(120))
    model = mh.DistributionRegressor(representation=stages, random_state=0)
    return model, model.fit(bags, y).predict(new, return_std=True)


def run(page: Page, seed: int) -> None:
    """Write the chapter."""
    rng = np.random.default_rng(seed)
    bags, y = shifts(LEARN, rng)
    new, truth = shifts(CHECK, rng)
    page.say(
        "Sometimes what is known of an example is a sample: the parts of a batch, the people of a town. Here "
        f"{LEARN} batches of 150 parts each come from two machines, and what is wanted is how far apart "
        "these are. Mean and variance are the same in all: only the shape of the sample tells."
    )
    model, (mean, std) = page.run(learn, bags, y, new)
    sides = [np.mean((truth - guess) ** 2) ** 0.5 for guess in (mean, np.full(CHECK, y.mean()))]
    inside = np.mean(np.abs(truth - mean) < 1.645 * std)
    few = model.predict([part[:40] for part in new], return_std=True)[1]
    page.table(
        [
            ("typical error on new batches", sides[0]),
            ("the same, always guessing the mean", sides[1]),
            ("share of the truth in 90% intervals", inside),
            ("mean standard deviation, 150 parts", std.mean()),
            ("mean standard deviation, 40 parts", few.mean()),
        ],
        ["", "value"],
        f"{CHECK} batches that had no part in learning; with fewer parts the answer is less sure.",
    )
    page.figure(
        predictions(Held(mean, std, truth), "distance of the modes"),
        "Predictions with 90% intervals against the truth. Modes that are close are hard to tell from one.",
    )
