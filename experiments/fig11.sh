#!/bin/sh
# Figure 11: LSTM on WikiText-2, without attack.
#   experiments/fig11.sh                     as published
#   experiments/fig11.sh --preset laptop     real data, a part of a day
#   experiments/fig11.sh --preset smoke      embedded data, minutes
set -eu
. "$(dirname -- "$0")/common.sh"
run fig11 "$@"
