"""What holds for all tests."""

from __future__ import annotations

from hypothesis import settings

# How long an example takes says how busy the machine is, not whether the answer is right.
settings.register_profile("crawler", deadline=None)
settings.load_profile("crawler")
