#!/bin/sh
# Theorems 1 and 2 and Proposition 1 compared with measurements, on problems with known constants.
#   experiments/theory.sh              pictures in figures/theory, 2 to 3 minutes on 2 cores
#   experiments/theory.sh --quick      2 seeds, half a minute
set -eu
. "$(dirname -- "$0")/common.sh"
run theory "$@"
