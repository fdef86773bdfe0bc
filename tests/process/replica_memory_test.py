# SPDX-License-Identifier: Apache-2.0
"""What one replica more costs: no second copy of the weights, and no second load of them."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from phalanx_server import Server, descendants, main  # noqa: E402
from process_figures import kind_of, log_times, mapped_memory  # noqa: E402

WEIGHTS = "phalanx-weights"


def weights(server):
    """(rank's pid, its mappings of the weights) of every process that has any."""
    found = [(pid, mapped_memory(pid, WEIGHTS)) for pid in [server.pid, *descendants(server.pid)]]
    return [(pid, mappings) for pid, mappings in found if mappings]


class ReplicaMemory(unittest.TestCase):
    def taken(self, dp):
        """Bytes of memory that the weights take with so many replicas, each of which has answered."""
        with Server("--dp", dp, "--tp", 1, "--num-kv-blocks", 256) as server:
            server.wait_idle()
            streams = [server.stream(f"count from 1 to {200 + i}") for i in range(2 * dp)]  # routed to all replicas
            for stream in streams:
                self.assertIsNone(stream.finish().error)
            mapped = weights(server)
            self.assertEqual([kind_of(pid) for pid, _ in mapped], ["rank"] * dp)
            self.assertEqual(len({inode for _, mappings in mapped for inode, _ in mappings}), 1, "all ranks read the same memory")
            ready = sorted(log_times(server.log_text(), "replica_ready"))
            self.assertEqual(len(ready), dp)
            self.assertEqual(len(log_times(server.log_text(), "weights_loaded")), 1)
            if dp > 1:
                self.assertLess(ready[1] - ready[0], 1)
            return sum(share for _, mappings in mapped for _, share in mappings)

    def test_eight_replicas_have_the_weights_of_one(self):
        one = self.taken(1)
        self.assertGreater(one, 1 << 20, "the built-in model is in memory")
        self.assertLessEqual(self.taken(8), 1.05 * one)


if __name__ == "__main__":
    main()
