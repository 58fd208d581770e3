"""Runs: what is computed, as frozen values that are recipe, record and key at once.

These modules hold what the numbers of a run depend on. The studies, which hold text, figures and claims, import them.
"""
