"""Who may write what: one protocol, and one implementation per way of coordinating."""

from drystone.coordination.none import NoCoordination
from drystone.coordination.protocol import Coordination

__all__ = ["Coordination", "NoCoordination"]
