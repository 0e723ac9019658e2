#!/bin/sh
# Figure 8: CNN, unbalanced partition, without attack, zoomed. Metrics over epochs.
#   experiments/fig08.sh                     as published
#   experiments/fig08.sh --preset laptop     real data, hours
#   experiments/fig08.sh --preset smoke      embedded synthetic data, minutes
set -eu
. "$(dirname -- "$0")/common.sh"
run fig8 "$@"
