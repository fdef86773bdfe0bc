#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which times between steps count."""
import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "bench"))
import step_times  # noqa: E402


def steps(*gaps, sequences=1, begin=0):
    """Steps of a millisecond that decode, so many microseconds apart."""
    found, at = [], begin
    for gap in (0, *gaps):
        at += gap * 1000
        found.append((at, at + 1_000_000, sequences, True))
        at += 1_000_000
    return found


class Between(unittest.TestCase):
    def test_is_from_an_end_to_the_next_beginning(self):
        self.assertEqual(step_times.between(steps(10, 20, 30), 1, left_out=0), [10, 20, 30])

    def test_the_first_steps_behind_a_prompt_are_left_out(self):
        prompt = [(0, 500, 1, False)]
        self.assertEqual(step_times.between(prompt + steps(1, 2, 3, 4, begin=900) + prompt + steps(5, 6, 7, begin=90_000_000), 1), [3, 4, 7])

    def test_all_sequences_decode_in_both_steps(self):
        mixed = steps(1, 2, sequences=16) + steps(3, 4, sequences=15, begin=9_000_000) + [(20_000_000, 21_000_000, 16, False)]
        self.assertEqual(step_times.between(mixed, 16, left_out=0), [1, 2])

    def test_files_are_read_as_they_are_written(self):
        with tempfile.NamedTemporaryFile("w+") as file:
            file.write("5 9 16 1\n11 20 2 0\n")
            file.flush()
            self.assertEqual(step_times.read(file.name), [(5, 9, 16, True), (11, 20, 2, False)])

    def test_percentiles_are_samples(self):
        self.assertEqual([step_times.percentile([4, 1, 3, 2], share) for share in (0, 0.5, 0.99, 1)], [1, 2, 3, 4])


unittest.main()
