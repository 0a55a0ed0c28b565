"""How many examples Hypothesis tries: HYPOTHESIS_PROFILE=long for a night's worth of them."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# A busy machine is no failure.
_ALWAYS = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow], "print_blob": True}
settings.register_profile("ci", max_examples=100, **_ALWAYS)
settings.register_profile("long", max_examples=50_000, **_ALWAYS)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
