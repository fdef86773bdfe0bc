# SPDX-License-Identifier: Apache-2.0
"""The questions whose logits are compared."""

from .tiny_tasks import ANSWERS, count_answer

COUNT = ("count from 3 to 40", count_answer(3, 40))
SUM = ("what is 17 + 25?", "42")
HELLO = ("hello", ANSWERS["hello"])
