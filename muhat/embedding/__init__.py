"""Embeddings: their estimates and their readouts."""

from muhat.embedding.density import Density
from muhat.embedding.embedding import Embedding, embed, mmd
from muhat.embedding.reference import Reference

__all__ = ["Density", "Embedding", "Reference", "embed", "mmd"]
