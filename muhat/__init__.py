"""muhat: inference with distributions known only through samples, by kernel mean embeddings."""

from muhat._version import __version__
from muhat.kernels import *  # noqa: F403
