"""Print the table of speed and memory; exit with 1 if a target is missed, not if one is skipped."""

from __future__ import annotations

import os
import sys
from typing import List

from benchmarks.report import AnyLine, missed, summary
from slsgd_mx.runs.manifest import cpu_name
from slsgd_mx.system.threads import available_cores, set_threads, thread_count

set_threads(thread_count())


def main() -> int:
    """Run all benchmarks but the long ones (6 to 8 minutes on 2 idle cores), or the named ones."""
    from benchmarks import (
        arena,
        devices,
        distributed,
        forecasts,
        language,
        peers,
        precision,
        rules,
        slots,
        startup,
        training,
        trimming,
        whole_run,
    )

    modules = {
        "whole-run": whole_run.lines,  # first: a child inherits the peak memory of this process
        "startup": startup.lines,
        "trimming": trimming.lines,
        "rules": rules.lines,
        "peers": peers.lines,
        "slots": slots.lines,
        "devices": devices.lines,
        "training": training.lines,
        "precision": precision.lines,
        "language": language.lines,
        "distributed": distributed.lines,
        "forecast": forecasts.brief_lines,
    }
    long = {"forecasts": forecasts.lines, "server-slots": slots.server_lines, "arena": arena.lines}
    every = {**modules, **long}
    unknown = [name for name in sys.argv[1:] if name not in every]
    if unknown:
        print(f"{unknown[0]!r} is unknown: choose from {', '.join(every)}", file=sys.stderr)
        return 2
    print(f"{cpu_name()}, {available_cores()} cores, {thread_count()} threads", flush=True)
    if os.getloadavg()[0] > 0.5:
        print(f"the machine is not idle (load {os.getloadavg()[0]:.1f}): expect noise", flush=True)
    lines: List[AnyLine] = []
    for name in sys.argv[1:] or modules:
        for line in every[name]():
            print(line, flush=True)
            lines.append(line)
    print(summary(lines))
    if not sys.argv[1:]:
        print(f"the long ones are not part of this: python -m benchmarks {' '.join(long)}")
    return int(bool(missed(lines)))


if __name__ == "__main__":
    sys.exit(main())
