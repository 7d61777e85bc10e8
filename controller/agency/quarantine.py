"""Agents at whose words the core failed: after the second time within ten minutes one is not let in for ten minutes.

Each of its reports would fail again, and all other agents wait while the core makes a traceback.
"""

from __future__ import annotations

from controller.agency.refusals import Reason, Refused

WITHIN_S = 600.0
LASTS_S = 600.0
FAULTS = 2


class Quarantine:
    def __init__(self) -> None:
        self._faults: dict[str, tuple[float, ...]] = {}  # by name: when the last ones were

    def fault(self, name: str, now: float) -> None:
        self._faults[name] = (*self._faults.get(name, ()), now)[-FAULTS:]

    def check(self, name: str, now: float) -> None:
        """Raise Refused for an agent that is in quarantine."""
        at = self._faults.get(name, ())
        if len(at) == FAULTS and at[-1] - at[0] <= WITHIN_S and now - at[-1] < LASTS_S:
            left_s = at[-1] + LASTS_S - now
            raise Refused(
                Reason.FAULT,
                f"the controller failed {FAULTS} times at words of {name}: it is let in again in {left_s:.0f} s; the "
                "controller's log says where it failed: report that as an error of bicast",
            )
