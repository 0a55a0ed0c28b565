"""Settings of the tests of rows."""

from __future__ import annotations

from hypothesis import settings

# A busy machine is no failure.
settings.register_profile("rows", deadline=None)
settings.load_profile("rows")
