# SPDX-License-Identifier: Apache-2.0
"""Arguments of the scripts of this folder: their types, what is none of them ends with argparse's message, and how they are read."""
import argparse
import os
import signal
import sys


def count(text):
    """A whole number from 1 on."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 on, found {text!r}")
    return int(text)


def counts(text):
    """Such numbers, with commas between them."""
    return [count(part) for part in text.split(",")]


def amount(text):
    """A whole number from 0 on."""
    return 0 if text == "0" else count(text)


def share(text):
    """A number from 0 to 1."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"expected a number from 0 to 1, found {text!r}")
    return value


def model(text):
    """A folder or a file."""
    if not os.path.exists(text):
        raise argparse.ArgumentTypeError(f"expected the folder or file of a model, found nothing at {text!r}")
    return text


def parse(parser):
    """The arguments. From here on SIGTERM and SIGHUP end the script as an interrupt does: with all that it has started."""
    asked = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    return asked
