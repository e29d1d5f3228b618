"""Simulated, and whether the posteriors learned from them are calibrated."""

from muhat.learning.supports import Support
from muhat.simulation.arviz import to_arviz
from muhat.simulation.calibration import Calibration, check_calibration
from muhat.simulation.checkpoint import CheckpointMismatch
from muhat.simulation.simulate import SimulationError, SimulationInterrupted, simulate
from muhat.simulation.simulated import Failure, Simulated

__all__ = [
    "Calibration",
    "CheckpointMismatch",
    "Failure",
    "Simulated",
    "SimulationError",
    "SimulationInterrupted",
    "Support",
    "check_calibration",
    "simulate",
    "to_arviz",
]
