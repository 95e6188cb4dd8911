"""A simulated event loop and network: runs with the same seed are the same."""

from aioprod.testing.simulation.loop import SimulatedLoop, StalledError
from aioprod.testing.simulation.members import start_member
from aioprod.testing.simulation.network import Conditions, Network, Wire
from aioprod.testing.simulation.producers import SimulatedClock, start

__all__ = ["Conditions", "Network", "SimulatedClock", "SimulatedLoop", "StalledError", "Wire", "start", "start_member"]
