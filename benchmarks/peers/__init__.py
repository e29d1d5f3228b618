"""Side by side with other packages: ``python -m benchmarks.peers``, in an environment of its own."""
