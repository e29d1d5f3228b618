"""``python -m papers.gretton2015.train_causation``: make what comes with ``mh.CauseEffect``.

The trees are learned from artificial pairs alone. Trees and code length are weighed by held-out artificial
pairs (calibration "artificial") and by the Tübingen pairs (calibration "measured"). Artificial pairs from
another seed are scored at the end.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import muhat as mh
from muhat._files import whole_file
from muhat.datasets.causation import tuebingen_pairs
from muhat.learning.causal_pairs import Generator, synthetic_pair
from muhat.learning.causation import weigh
from muhat.models import cause_effect

FILE = Path(cause_effect.__file__).with_name(cause_effect.SHIPPED)


def held_out(count: int, seed: int) -> list[np.ndarray]:
    """Artificial pairs whose first column is the cause."""
    rng = np.random.default_rng(seed)
    return [synthetic_pair(Generator(), rng) for _ in range(count)]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m papers.gretton2015.train_causation", description=__doc__)
    parser.add_argument("--pairs", type=int, default=12_000)
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=FILE)
    chosen = parser.parse_args()
    real = tuebingen_pairs()
    model = mh.CauseEffect(members=chosen.members, random_state=chosen.seed).retrain(chosen.pairs)
    measured = weigh(model.evidence(real.pairs) * real.labels[:, None], real.weights)
    trees = model.trees_
    arrays = {name: getattr(trees, name) for name in cause_effect.PARTS}
    arrays |= {"depth": np.array(trees.depth), "artificial": model.weights_, "measured": measured}
    with whole_file(chosen.out) as draft, open(draft, "wb") as file:
        np.savez_compressed(file, **arrays)
    p = model.predict_proba(held_out(2000, chosen.seed + 1_000_003))
    sure = np.maximum(p, 1 - p)
    print(f"{chosen.out.stat().st_size / 1e3:.0f} kB; {len(p)} held-out artificial pairs:")
    print(f"weights of trees and code length: artificial {model.weights_}, measured {measured}")
    print(f"right {np.mean(p > 0.5):.3f}, mean probability of the direction chosen {sure.mean():.3f}")


if __name__ == "__main__":
    main()
