#!/usr/bin/env python3
"""Mixed load with faults: the good answers stay right, memory stays what it was, nothing leaks.

    faults_test.py PROGRAM MODEL TINY_MODEL [unittest arguments]

SPRAT_FAULT_SECONDS says how long; a program built with the address sanitizer also says at its end
what it leaked. bench/soak.py does the same for half an hour.
"""

import os
import statistics
import threading
import unittest

from faulty_clients import FaultyClients
from harness import GOOD, Arguments, main
from running_server import RunningServer

SECONDS = float(os.environ.get("SPRAT_FAULT_SECONDS", "4"))


class Faults(unittest.TestCase):
    def run_clients(self, server, clients):
        """Resident bytes, ten times a second."""
        load = threading.Thread(target=clients.run, args=(SECONDS,))
        load.start()
        samples = []
        while load.is_alive():
            load.join(0.1)
            samples.append(server.resident_bytes())
        return samples

    def test_mixed_load_with_faults(self):
        # The address sanitizer would keep what was freed, up to 256 MB of it.
        sanitizer = os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=4"
        server = RunningServer(
            Arguments.program, Arguments.tiny, environment={"ASAN_OPTIONS": sanitizer}
        )
        try:
            clients = FaultyClients(server, {"m": 1}, rate=250)
            clients.warm_up()
            samples = self.run_clients(server, clients)
            third = len(samples) // 3
            before, after = (statistics.mean(part) for part in (samples[third : 2 * third],
                                                                samples[2 * third :]))
            grown = after / before - 1
            print(f"{sum(clients.counts.values())} requests, memory grew by {grown:.1%}")
            self.assertEqual(clients.faults, [])
            kinds = {kind for kind, _ in clients.counts}
            self.assertEqual(len(kinds), 12, clients.counts)
            self.assertGreater(server.metric("sprat_cancelled_total"), 0)
            if SECONDS >= 30:  # in less, a few large requests decide
                self.assertLess(grown, 0.03)
            self.assertEqual(server.post("/v1/embeddings", GOOD).status, 200)
            self.assertEqual(server.metric("sprat_queue_depth"), 0)
        finally:
            self.assertEqual(server.close(), 0, server.log[-40:])


if __name__ == "__main__":
    main()
