"""A simulated event loop and network: everything that a seed brings about happens again with the same seed."""

from aioprod.testing.simulation.loop import SimulatedLoop, StalledError
from aioprod.testing.simulation.network import Conditions, Network, Wire
from aioprod.testing.simulation.producers import SimulatedClock, start

__all__ = ["Conditions", "Network", "SimulatedClock", "SimulatedLoop", "StalledError", "Wire", "start"]
