"""Print the table of speed and memory; exit with 1 if a target is missed."""

from __future__ import annotations

import os
import sys

from slsgd_mx.runs.manifest import cpu_name
from slsgd_mx.system.threads import available_cores, set_threads, thread_count

set_threads(thread_count())


def main() -> int:
    """Run all benchmarks (about a quarter of an hour on 2 cores), or the named ones."""
    from benchmarks import distributed, language, rules, training, trimming, whole_run

    print(f"{cpu_name()}, {available_cores()} cores, {thread_count()} threads", flush=True)
    if os.getloadavg()[0] > 0.5:
        print(f"the machine is not idle (load {os.getloadavg()[0]:.1f}): expect noise", flush=True)
    missed = 0
    modules = {
        "whole-run": whole_run,  # first, because a child inherits the peak memory of this process
        "trimming": trimming,
        "rules": rules,
        "training": training,
        "language": language,
        "distributed": distributed,
    }
    for name in sys.argv[1:] or modules:
        for line in modules[name].lines():
            print(line, flush=True)
            missed += not line.met
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
