"""Print the table of speed and memory; exit with 1 if a target is missed."""

from __future__ import annotations

import os
import sys

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
        training,
        trimming,
        whole_run,
    )

    print(f"{cpu_name()}, {available_cores()} cores, {thread_count()} threads", flush=True)
    if os.getloadavg()[0] > 0.5:
        print(f"the machine is not idle (load {os.getloadavg()[0]:.1f}): expect noise", flush=True)
    missed = 0
    modules = {
        "whole-run": whole_run,  # first, because a child inherits the peak memory of this process
        "trimming": trimming,
        "rules": rules,
        "peers": peers,
        "slots": slots,
        "devices": devices,
        "training": training,
        "precision": precision,
        "language": language,
        "distributed": distributed,
    }
    long = {"forecasts": forecasts, "arena": arena}
    every = {**modules, **long}
    unknown = [name for name in sys.argv[1:] if name not in every]
    if unknown:
        print(f"{unknown[0]!r} is unknown: choose from {', '.join(every)}", file=sys.stderr)
        return 2
    for name in sys.argv[1:] or modules:
        for line in every[name].lines():
            print(line, flush=True)
            missed += not line.met
    if not sys.argv[1:]:
        print(f"the long ones are not part of this: python -m benchmarks {' '.join(long)}")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
