"""Which blocks does a stream have? One protocol, and one implementation per way of knowing."""

from drystone.tracker.listing import ListingTracker
from drystone.tracker.protocol import Tracker

__all__ = ["ListingTracker", "Tracker"]
