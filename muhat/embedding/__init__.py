"""Embeddings: their estimates and their readouts."""

from muhat.embedding.atoms import Atoms
from muhat.embedding.embedding import Embedding, embed, mmd
from muhat.embedding.familiar import Familiar
from muhat.embedding.reconstruction import Density, Mixture, OutsideBox
from muhat.embedding.reference import Reference

__all__ = ["Atoms", "Density", "Embedding", "Familiar", "Mixture", "OutsideBox", "Reference", "embed", "mmd"]
