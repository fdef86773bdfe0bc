# SPDX-License-Identifier: Apache-2.0
"""Size and seed of a random test."""
import os
import random
import sys


def read(usual, long):
    """(how many, whether it is the long form, seed).

    How many: the first argument if it is a number, `long` with --long or PHALANX_TEST_LONG=1, else `usual`. The seed is
    PHALANX_TEST_SEED or drawn. Both variables are taken out of the environment, as phalanxd would warn about them.
    """
    by_variable = os.environ.pop("PHALANX_TEST_LONG", "") == "1"
    seed = os.environ.pop("PHALANX_TEST_SEED", "")
    by_argument = "--long" in sys.argv[1:]
    if by_argument:
        sys.argv.remove("--long")
    count = long if by_variable or by_argument else usual
    if len(sys.argv) > 1 and sys.argv[1].isdigit():
        count = int(sys.argv.pop(1))
    return count, count >= long, int(seed) if seed else random.SystemRandom().randrange(1_000_000)
