# SPDX-License-Identifier: Apache-2.0
"""Types of arguments for the scripts of this folder; what is none of them ends with argparse's message."""
import argparse
import os


def count(text):
    """A whole number from 1 on."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 on, found {text!r}")
    return int(text)


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
