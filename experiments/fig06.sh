#!/bin/sh
# Figure 6: CNN, balanced partition, without attack. The epochs needed to reach a training loss,
# over a constant alpha.
#   experiments/fig06.sh                     as published
#   experiments/fig06.sh --preset laptop     real data, hours
#   experiments/fig06.sh --preset smoke      embedded synthetic data, minutes
set -eu
. "$(dirname -- "$0")/common.sh"
run fig6 "$@"
