#!/bin/sh
# Figure 9: CNN, balanced partition, label-flipping attack, zoomed. Metrics over epochs.
#   experiments/fig09.sh                     as published
#   experiments/fig09.sh --preset laptop     real data, hours
#   experiments/fig09.sh --preset smoke      embedded synthetic data, minutes
set -eu
. "$(dirname -- "$0")/common.sh"
run fig9 "$@"
