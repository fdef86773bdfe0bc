# SPDX-License-Identifier: Apache-2.0
"""What the kernel and the log tell of the processes of a server: memory, processor time, moments. A process that has ended is an OSError."""
import datetime
import os
import re


def kind_of(pid):
    """leader, front, replica, rank, … by the title of the process."""
    with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
        title = re.match(r"phalanxd: (\w+)", file.read())
    return title[1] if title else "leader"


def proportional_bytes(pid):
    """Resident bytes; what several processes have mapped is divided among them, so that a sum counts it once."""
    with open(f"/proc/{pid}/smaps_rollup") as file:
        found = re.search(r"^Pss:\s+(\d+) kB", file.read(), re.M)
    if not found:
        raise ProcessLookupError(pid)  # its memory is gone already
    return int(found[1]) << 10


def mapped_memory(pid, name):
    """(inode, proportional bytes) of each mapping of the memory file `name`."""
    with open(f"/proc/{pid}/smaps") as file:
        text = file.read()
    return [(int(inode), int(share) << 10) for inode, share in
            re.findall(rf"^\S+ \S+ \S+ \S+ (\d+) +/memfd:{name} .*\n(?:(?!Pss:).*\n)*Pss: +(\d+) kB", text, re.M)]


def cpu_seconds(pid):
    """Processor time of the threads that there are, to the nanosecond; that of threads which have ended is left out."""
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/schedstat") as file:
            total += int(file.read().split()[0])
    return total / 1e9


def log_times(text, event):
    """Unix times, to the millisecond, of the lines of a log with this event."""
    return [datetime.datetime.fromisoformat(line.split(" ", 1)[0].replace("Z", "+00:00")).timestamp()
            for line in text.splitlines() if re.search(rf" {event}( |$)", line)]
