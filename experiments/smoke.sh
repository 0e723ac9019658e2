#!/bin/sh
# Everything at the smallest scale, on embedded data: all figures in one plan, each figure by its
# own script (its runs are there by then), Proposition 1 with two seeds, and the verdicts on
# the paper's claims.
#   experiments/smoke.sh                      pictures in figures/smoke, runs in runs
#   experiments/smoke.sh RUNS FIGURES         in folders of your own
set -eu
. "$(dirname -- "$0")/common.sh"
runs=${1:-runs}
figures=${2:-figures/smoke}
scripts=$(dirname -- "$0")
"$scripts/all.sh" --preset smoke --runs "$runs" --out "$figures"
for figure in "$scripts"/fig*.sh "$scripts/ledger.sh"; do
  "$figure" --preset smoke --runs "$runs" --out "$figures"
done
"$scripts/theory.sh" prop1 --quick --runs "$runs" --out "$figures/theory"
run claims --preset smoke --runs "$runs" --out "$figures"
