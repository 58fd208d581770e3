"""Settings shared by all tests."""

from hypothesis import settings

# The machine that runs the tests is shared: a slow example is no failure.
settings.register_profile("prudent", deadline=None, max_examples=60)
settings.load_profile("prudent")
