"""Figures: one module for each kind, over the helpers of ``prudent.display.figures.base``."""
