"""All faults beyond the basic ones of ``faults``. A subject has a file of its own; its faults are added here.

Knows: who has faults to offer. Must not know: what they do.
"""

from __future__ import annotations

from tests.sim import backups, newcomers, plots, plots_catching_up
from tests.sim.kinds import Fault

FAULTS: tuple[Fault, ...] = (*plots.FAULTS, *plots_catching_up.FAULTS, *newcomers.FAULTS, *backups.FAULTS)
