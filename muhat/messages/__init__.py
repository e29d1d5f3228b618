"""Messages of expectation propagation: families, factors with their oracles, and the loop."""

from muhat.messages.ep import LogisticPosterior, logistic_ep
from muhat.messages.factors import (
    TooFewParticles,
    compound_gamma_importance,
    compound_gamma_quadrature,
    logistic_importance,
    logistic_quadrature,
)
from muhat.messages.families import Beta, Gamma, Message, Normal
from muhat.messages.tuples import Tuples

__all__ = [
    "Beta",
    "Gamma",
    "LogisticPosterior",
    "Message",
    "Normal",
    "TooFewParticles",
    "Tuples",
    "compound_gamma_importance",
    "compound_gamma_quadrature",
    "logistic_ep",
    "logistic_importance",
    "logistic_quadrature",
]
