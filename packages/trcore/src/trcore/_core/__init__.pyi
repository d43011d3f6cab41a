"""The C++ core: one stub for each ``bind_*.cpp``, all of whose names are in this one module.

Kept by hand; ``tests/test_stub.py`` compares them with the module.
"""

from trcore._core.assign import Assigned as Assigned
from trcore._core.assign import AssignRules as AssignRules
from trcore._core.assign import assign as assign
from trcore._core.assign import prices as prices
from trcore._core.batching import deadlock_free as deadlock_free
from trcore._core.batching import effective_thresholds as effective_thresholds
from trcore._core.batching import may_start as may_start
from trcore._core.dtmc import BestThresholds as BestThresholds
from trcore._core.dtmc import ChainSolution as ChainSolution
from trcore._core.dtmc import ReducibleChainError as ReducibleChainError
from trcore._core.dtmc import StateSpaceTooLargeError as StateSpaceTooLargeError
from trcore._core.dtmc import best_thresholds as best_thresholds
from trcore._core.dtmc import solve as solve
from trcore._core.instance_view import InstanceView as InstanceView
from trcore._core.peer_ring import PeerRing as PeerRing
from trcore._core.peer_ring import remove_stale_segments as remove_stale_segments
from trcore._core.pending_table import PendingTable as PendingTable
from trcore._core.pending_table import State as State
from trcore._core.philox import uniform as uniform
from trcore._core.simulation import SearchedThresholds as SearchedThresholds
from trcore._core.simulation import Simulated as Simulated
from trcore._core.simulation import search_thresholds as search_thresholds
from trcore._core.simulation import simulate as simulate
from trcore._core.why_not import WhyNot as WhyNot
from trcore._core.why_not import why_not as why_not
