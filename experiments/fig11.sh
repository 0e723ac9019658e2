#!/bin/sh
# Figure 11: LSTM, without attack. Metrics over epochs.
#   experiments/fig11.sh                     as published
#   experiments/fig11.sh --preset laptop     real data, hours
#   experiments/fig11.sh --preset smoke      embedded synthetic data, minutes
set -eu
. "$(dirname -- "$0")/common.sh"
run fig11 "$@"
