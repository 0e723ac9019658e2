#!/bin/sh
# Figure 12: LSTM, permuted labels, q=2. Metrics over epochs.
#   experiments/fig12.sh                     as published
#   experiments/fig12.sh --preset laptop     real data, hours
#   experiments/fig12.sh --preset smoke      embedded synthetic data, minutes
set -eu
. "$(dirname -- "$0")/common.sh"
run fig12 "$@"
