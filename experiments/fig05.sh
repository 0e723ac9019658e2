#!/bin/sh
# Figure 5: CNN, unbalanced partition, label-flipping attack, q=2. The epochs needed to reach a
# training loss, over a constant alpha.
#   experiments/fig05.sh                     as published
#   experiments/fig05.sh --preset laptop     real data, hours
#   experiments/fig05.sh --preset smoke      embedded synthetic data, minutes
set -eu
. "$(dirname -- "$0")/common.sh"
run fig5 "$@"
