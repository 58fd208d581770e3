"""Executors: back up all rows of a model on threads, on a GPU or on the workers of a cluster."""
