"""What a filter finds: the states of a sequence."""

from __future__ import annotations

from typing import Any

import numpy as np

from muhat._array import Array
from muhat.kernels.base import Kernel
from muhat.models.posterior import MomentPosterior, Posterior


class Tracked:
    """How a filter got to its states.

    Attributes:
        mass: what each observation left of the prediction before it was normalised, (T,): near one where both
            agree, near zero where the observation contradicts it. Of a linear filter alone, the chance of an
            innovation that is longer.
        observed: whether each observation was used, (T,); where not, the state is the prediction.

    Of a single step both are numbers.
    """

    mass: Array
    observed: Array

    def summary(self) -> str:
        """One sentence on how the filter fared."""
        found: Any = self
        T, missed = np.size(self.observed), int(np.sum(np.logical_not(self.observed)))
        parts = [f"{T} step{'s' if T > 1 else ''}"]
        if isinstance(found, Posterior):
            size = float(np.median(np.asarray(found.effective_size())))
            parts = [f"{parts[0]}, carried by {size:.0f} training points (median)"]
        if missed:
            parts.append(f"{missed} predicted without an observation")
        if k := len(found.unlike):
            parts.append(f"{k} observation{'s' if k > 1 else ''} unlike anything in training")
        return "; ".join(parts) + "."


class Filtered(Tracked, Posterior):
    """The states of a sequence, one embedding a step, and how the filter got there.

    ``effective_size()`` says how many training points carry each state, and ``unlike`` at which steps the
    observation lies far from anything seen in training.

    Attributes:
        familiarity: the largest kernel correlation of each observation with one seen in training, (T,): one
            for a copy, zero for an observation unlike all of them; NaN where it is missing.
    """

    def __init__(
        self,
        kernel: Kernel,
        points: Array,
        weights: Array,
        mass: Array,
        familiarity: Array,
        observed: Array,
        encoder: Any,
    ) -> None:
        super().__init__(kernel, points, weights, familiarity, encoder)
        self.mass, self.observed = mass, observed

    def __getitem__(self, index: Any) -> Filtered:
        part = super().__getitem__(index)
        told = self.mass[index], part.familiarity, self.observed[index]
        return Filtered(part.kernel, part.points, part.weights, *told, part.encoder)


class MomentFiltered(Tracked, MomentPosterior):
    """The same from training sequences that were read in blocks."""

    def __init__(self, mass: Array, observed: Array, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.mass, self.observed = mass, observed

    def __getitem__(self, index: Any) -> MomentFiltered:
        told = self.mass[index], self.observed[index], self.familiarity[index]
        return MomentFiltered(*told, *self._parts(index))
