#!/bin/sh
# Figure 10: CNN, unbalanced partition, label-flipping attack, zoomed. Metrics over epochs.
#   experiments/fig10.sh                     as published
#   experiments/fig10.sh --preset laptop     real data, hours
#   experiments/fig10.sh --preset smoke      embedded synthetic data, minutes
set -eu
. "$(dirname -- "$0")/common.sh"
run fig10 "$@"
