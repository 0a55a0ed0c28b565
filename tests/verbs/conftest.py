"""Settings of the engine's tests."""

from __future__ import annotations

from hypothesis import settings

# A busy machine is no failure.
settings.register_profile("engine", deadline=None)
settings.load_profile("engine")
