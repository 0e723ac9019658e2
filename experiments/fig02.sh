#!/bin/sh
# Figure 2: CNN, unbalanced partition, without attack. Metrics over epochs.
#   experiments/fig02.sh                     as published
#   experiments/fig02.sh --preset laptop     real data, hours
#   experiments/fig02.sh --preset smoke      embedded synthetic data, minutes
set -eu
. "$(dirname -- "$0")/common.sh"
run fig2 "$@"
