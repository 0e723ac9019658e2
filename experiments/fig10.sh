#!/bin/sh
# Figure 10: CNN on CIFAR-10, unbalanced partition, label-flipping attack, zoomed.
#   experiments/fig10.sh                     as published
#   experiments/fig10.sh --preset laptop     real data, a part of a day
#   experiments/fig10.sh --preset smoke      embedded data, minutes
set -eu
. "$(dirname -- "$0")/common.sh"
run fig10 "$@"
