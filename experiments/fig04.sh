#!/bin/sh
# Figure 4: CNN, unbalanced partition, label-flipping attack. Metrics over epochs.
#   experiments/fig04.sh                     as published
#   experiments/fig04.sh --preset laptop     real data, hours
#   experiments/fig04.sh --preset smoke      embedded synthetic data, minutes
set -eu
. "$(dirname -- "$0")/common.sh"
run fig4 "$@"
