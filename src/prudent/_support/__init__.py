"""Checks, names, tables, files, streams and progress. Nothing here imports a room above it."""
