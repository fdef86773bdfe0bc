#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What bench/compare says of samples."""
import argparse
import importlib.machinery
import importlib.util
import os
import random
import sys
import unittest
import xml.etree.ElementTree

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "bench"))
import comparison  # noqa: E402

LOADER = importlib.machinery.SourceFileLoader("compare", os.path.join(sys.path[0], "compare"))
compare = importlib.util.module_from_spec(importlib.util.spec_from_loader("compare", LOADER))
LOADER.exec_module(compare)

KINDS = {"ours": "phalanx", "limit of ours": "limit", "theirs": "peer"}


def sample(subject, number, **metrics):
    return {"subject": subject, "round": number, **({"limit_of": "ours"} if "limit" in subject else {}), **metrics}


def rounds(count):
    """A machine that is twice as fast in every second round."""
    samples = []
    for number in range(count):
        speed = 1 + number % 2
        samples += [sample("limit of ours", number, prefill=100 * speed, decode_b1=20 * speed),
                    sample("ours", number, prefill=50 * speed, decode_b1=10 * speed),
                    sample("theirs", number, prefill=40 * speed, decode_b1=None)]
    return samples


class Ratios(unittest.TestCase):
    def test_are_of_samples_of_one_round(self):
        records = comparison.summaries(rounds(6), KINDS)
        ratios = {(r["to"], r["metric"]): r for r in records if r["what"] == "ratio"}
        self.assertEqual(set(ratios), {("limit of ours", "prefill"), ("limit of ours", "decode_b1"), ("theirs", "prefill")})
        peer = ratios["theirs", "prefill"]
        self.assertEqual((peer["median"], peer["low"], peer["high"], peer["rounds"]), (1.25, 1.25, 1.25, 6))
        rate = next(r for r in records if r["what"] == "rate" and r["subject"] == "ours" and r["metric"] == "prefill")
        self.assertEqual((rate["median"], rate["min"], rate["max"]), (75, 50, 100))

    def test_leave_out_rounds_that_one_of_them_lacks(self):
        self.assertEqual(comparison.paired_ratios([(0, 10), (1, 30), (2, 90)], [(1, 10), (2, 30), (3, 1)]), [3, 3])

    def test_limits_are_compared_with_what_they_limit_only(self):
        kinds = {**KINDS, "ours int8": "phalanx"}
        records = comparison.summaries(rounds(5) + [sample("ours int8", 0, prefill=90)], kinds)
        pairs = {(r["subject"], r["to"]) for r in records if r["what"] == "ratio"}
        self.assertEqual(pairs, {("ours", "limit of ours"), ("ours", "theirs"), ("ours int8", "theirs")})


class Intervals(unittest.TestCase):
    def test_of_few_rounds_are_their_ends(self):
        self.assertEqual(comparison.interval([1.1, 0.9, 1.0]), (0.9, 1.1, "min-max"))
        self.assertEqual(comparison.interval([4, 1, 3, 2]), (1, 4, "min-max"))

    def test_hold_the_median_and_are_narrower_than_the_ends(self):
        for rounds, low, high, how in ((5, 1, 5, "94 %"), (6, 1, 6, "97 %"), (7, 1, 7, "98 %"), (9, 2, 8, "96 %"), (11, 3, 9, "93 %"), (21, 6, 16, "97 %")):
            with self.subTest(rounds):
                self.assertEqual(comparison.interval(list(range(rounds, 0, -1))), (low, high, how))

    def test_hold_the_median_as_often_as_they_say(self):
        generator = random.Random(1)
        for rounds in (5, 8, 11):
            held = 0
            for _ in range(2000):
                low, high, how = comparison.interval([generator.lognormvariate(0, 1) for _ in range(rounds)])
                held += low <= 1 <= high
            self.assertAlmostEqual(held / 2000, float(how.split()[0]) / 100, delta=0.02)


class Output(unittest.TestCase):
    def test_table_has_a_row_for_each_subject_and_ratio(self):
        text = comparison.table(comparison.summaries(rounds(5), KINDS))
        self.assertIn("| ours | 50.0 (50.0–100.0) | 10.0 (10.0–20.0) | - |", text)
        self.assertIn("| ours ÷ limit of ours | 0.50 (0.50–0.50) | 0.50 (0.50–0.50) | - |", text)
        self.assertIn("| theirs | 40.0 (40.0–80.0) | - | - |", text)

    def test_says_what_its_intervals_are(self):
        self.assertIn("| ratio (94 %) |", comparison.table(comparison.summaries(rounds(5), KINDS)))
        few = comparison.summaries(rounds(4), KINDS)
        self.assertEqual({r["interval"] for r in few if r["what"] == "ratio"}, {"min-max"})
        self.assertIn("| ratio (min–max) |", comparison.table(few))
        mixed = comparison.table(comparison.summaries(rounds(5) + [sample("late", 0, prefill=25)], {**KINDS, "late": "peer"}))
        self.assertIn("| ratio (94 %, min–max where marked *) |", mixed)
        self.assertIn("| ours ÷ late | 2.00 (2.00–2.00)* | - | - |", mixed)
        self.assertIn("| ours ÷ theirs | 1.25 (1.25–1.25) | - | - |", mixed)

    def test_chart_is_well_formed_and_has_a_bar_for_each_rate(self):
        records = comparison.summaries(rounds(5), KINDS)
        root = xml.etree.ElementTree.fromstring(comparison.chart(records, "a < b & c"))
        bars = [e for e in root.iter("{http://www.w3.org/2000/svg}rect") if e.get("x")]
        self.assertEqual(len(bars), 5)
        self.assertTrue(all(float(bar.get("width")) > 0 for bar in bars))


class Limits(unittest.TestCase):
    ASKED = argparse.Namespace(prompt=512, context=128, tokens=32)

    def test_are_measured_with_what_changes_them(self):
        def value(flag, options):
            command = compare.limit_command("folder", options, self.ASKED)
            return command[command.index(flag) + 1] if flag in command else None
        options = "--quantization int4 --isa=avx2 --max_num_batched_tokens 1k --tp 2"
        self.assertEqual([value(flag, options) for flag in ("--model", "--format", "--isa", "--chunk", "--context")],
                         ["folder", "int4", "avx2", "1k", "144"])
        self.assertEqual([value(flag, "") for flag in ("--format", "--isa", "--chunk")], ["auto", None, None])

    def test_are_not_known_of_several_replicas_and_of_chosen_cores(self):
        self.assertIsNone(compare.without_limit("--tp 2 --dp 1"))
        self.assertEqual(compare.without_limit("--dp 2"), "--dp")
        self.assertEqual(compare.without_limit("--data-parallel-size=2"), "--data-parallel-size")
        self.assertEqual(compare.without_limit("--devices 0"), "--devices")


class Peers(unittest.TestCase):
    def test_that_print_what_is_no_text_have_a_fault_or_their_figures(self):
        line = r'{"prefill": 1, "decode_b1": 2, "decode_b16": null}'
        self.assertEqual(compare.measure_peer(rf"printf '\377\n%s\n' '{line}'", ""), {"prefill": 1, "decode_b1": 2, "decode_b16": None})
        self.assertIn("fault", compare.measure_peer(r"printf '{\377\n'", ""))


unittest.main()
