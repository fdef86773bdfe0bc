# SPDX-License-Identifier: Apache-2.0
"""What bench/between_steps makes of the times that ranks write down."""


def read(path):
    """[(began, ended, sequences, is_decode)] of a file of timed_worker, in nanoseconds."""
    with open(path) as file:
        return [(int(began), int(ended), int(sequences), decode == "1") for began, ended, sequences, decode in map(str.split, file)]


def between(steps, sequences, left_out=2):
    """Microseconds from the end of each step that decodes so many sequences to the beginning of the next one, where that decodes
    as many. The first `left_out` of a run are not counted: behind a prompt nothing was sent ahead."""
    found, run = [], 0
    for (_, ended, *before), (began, _, *after) in zip(steps, steps[1:]):
        run = run + 1 if before == after == [sequences, True] else 0
        if run > left_out:
            found.append((began - ended) / 1e3)
    return found


def percentile(values, share):
    return sorted(values)[int((len(values) - 1) * share)]
