"""What can be asked of the controller, in one table: its routes and their description."""

from __future__ import annotations

from headrace.controller.call import Call
from headrace.controller.hotspots.calls import HOTSPOT_CALLS
from headrace.controller.replicating.calls import REPLICATION_CALLS
from headrace.controller.reservation_calls import RESERVATION_CALLS

CALLS: tuple[Call, ...] = (*RESERVATION_CALLS, *HOTSPOT_CALLS, *REPLICATION_CALLS)
"""Most frequent first, for they are tried in this order."""
