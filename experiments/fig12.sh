#!/bin/sh
# Figure 12: LSTM on WikiText-2, permuted labels, q=2.
#   experiments/fig12.sh                     as published
#   experiments/fig12.sh --preset laptop     real data, a part of a day
#   experiments/fig12.sh --preset smoke      embedded data, minutes
set -eu
. "$(dirname -- "$0")/common.sh"
run fig12 "$@"
