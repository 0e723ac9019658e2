#!/bin/sh
# Figure 7: CNN, balanced partition, without attack, zoomed. Metrics over epochs.
#   experiments/fig07.sh                     as published
#   experiments/fig07.sh --preset laptop     real data, hours
#   experiments/fig07.sh --preset smoke      embedded synthetic data, minutes
set -eu
. "$(dirname -- "$0")/common.sh"
run fig7 "$@"
