#!/bin/sh
# Figure 13: LSTM, permuted labels, q=2, without FedAvg under attack. Metrics over epochs.
#   experiments/fig13.sh                     as published
#   experiments/fig13.sh --preset laptop     real data, hours
#   experiments/fig13.sh --preset smoke      embedded synthetic data, minutes
set -eu
. "$(dirname -- "$0")/common.sh"
run fig13 "$@"
