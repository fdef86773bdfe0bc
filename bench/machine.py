# SPDX-License-Identifier: Apache-2.0
"""What a figure was measured on, for the scripts of this folder; the same members as machine.cc."""
import os
import platform
import subprocess


def describe():
    model = "unknown"
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True,
                            cwd=os.path.dirname(os.path.abspath(__file__))).stdout.strip()
    return {"cpu": model, "cores": len(os.sched_getaffinity(0)), "os": platform.release(),
            "load_before": os.getloadavg()[0], "commit": commit}
