# SPDX-License-Identifier: Apache-2.0
"""The instruction sets that tests on this machine can ask for."""
import os
import re
import subprocess

from phalanx_server import BIN


def instruction_sets():
    """Those of `--isa` whose needs, as the help tells them, this processor has; slowest first."""
    text = " ".join(subprocess.run([os.path.join(BIN, "phalanxd"), "--help"], capture_output=True, text=True, check=True,
                                   timeout=60).stdout.split())
    names = re.search(r"--isa auto\|(\S+)", text).group(1).split("|")
    needs = {name: words.split() for name, words in re.findall(r"(\w+) needs ([\w ]+)", text)}
    with open("/proc/cpuinfo") as file:
        flags = re.search(r"^flags\s*:(.*)$", file.read(), re.MULTILINE).group(1).split()
    found = [name for name in names if set(needs.get(name, [])) <= set(flags)]
    assert "ref" in found and len(needs) == len(names) - 1, (names, needs)
    return found
