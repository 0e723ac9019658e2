#!/bin/sh
# Figure 3: CNN, balanced partition, label-flipping attack. Metrics over epochs.
#   experiments/fig03.sh                     as published
#   experiments/fig03.sh --preset laptop     real data, hours
#   experiments/fig03.sh --preset smoke      embedded synthetic data, minutes
set -eu
. "$(dirname -- "$0")/common.sh"
run fig3 "$@"
