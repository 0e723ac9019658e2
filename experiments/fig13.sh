#!/bin/sh
# Figure 13: LSTM on WikiText-2, permuted labels, q=2, without the curve that diverges.
#   experiments/fig13.sh                     as published
#   experiments/fig13.sh --preset laptop     real data, a part of a day
#   experiments/fig13.sh --preset smoke      embedded data, minutes
set -eu
. "$(dirname -- "$0")/common.sh"
run fig13 "$@"
