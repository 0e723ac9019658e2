#!/bin/sh
# Everything at the smallest scale, on embedded synthetic data: all figures, Proposition 1 with two
# seeds, and the verdicts on the paper's claims.
#   experiments/smoke.sh                              runs in runs, pictures in figures/smoke
#   experiments/smoke.sh RUNS FIGURES [OPTIONS]       other folders; options of all and claims
set -eu
. "$(dirname -- "$0")/common.sh"
runs=${1:-runs}
figures=${2:-figures/smoke}
shift $(($# < 2 ? $# : 2))
run all --preset smoke --runs "$runs" --figures "$figures" "$@"
run theory prop1 --quick --runs "$runs" --figures "$figures/theory"
run claims --preset smoke --runs "$runs" --figures "$figures" "$@"
