"""A thread beside the core's, in which probes are estimated: what may take a second holds up no packet and no wish.

numpy comes with threads of its own, which take signals as the thread that imports it does: this one takes none. Before
signals are held back for who awaits them (__main__.py) it must not be there.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from controller.measuring.estimates import Estimate, Estimated


class Estimator:
    def __init__(self, post: Callable[[Estimated], None]) -> None:
        """`post` must not block."""
        self._post = post
        self._orders: queue.SimpleQueue[Estimate | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="estimates", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, order: Estimate) -> None:
        self._orders.put(order)

    def stop(self) -> None:
        self._orders.put(None)
        self._thread.join()

    def _run(self) -> None:
        from controller.measuring.estimating import estimated

        while (order := self._orders.get()) is not None:
            self._post(estimated(order))
