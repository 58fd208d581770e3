"""Numerical kernels that know nothing of decisions. Nothing here imports a room above it."""
