"""Certificates that a program without prudent can check: the checker, which stands alone in ``checker.py``."""
