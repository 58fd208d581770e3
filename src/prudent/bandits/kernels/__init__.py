"""Compiled kernels of bandits: the layout of their state, one step, many contexts at a time, and items."""
