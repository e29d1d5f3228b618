"""Kernel Bayes' law against Kalman filters: a camera that turns in a room, seen only by its images."""
