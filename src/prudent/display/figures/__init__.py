"""Figures: one module for each kind, over the helpers of :mod:`prudent.display.figures.base`."""
