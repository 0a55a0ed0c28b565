"""Hypothesis strategies for whole streams: see `drystone.testing.happenings` for what may be in them."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from drystone.testing.happenings import random_history
from drystone.testing.history import History


def histories(actions: Sequence[str] = (), most: int = 12) -> st.SearchStrategy[History]:
    """Generate histories of a stream, as `random_history` does."""
    return st.builds(random_history, st.randoms(use_true_random=False), st.just(actions), st.just(most))
