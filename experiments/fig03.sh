#!/bin/sh
# Figure 3: CNN on CIFAR-10, balanced partition, label-flipping attack.
#   experiments/fig03.sh                     as published
#   experiments/fig03.sh --preset laptop     real data, a part of a day
#   experiments/fig03.sh --preset smoke      embedded data, minutes
set -eu
. "$(dirname -- "$0")/common.sh"
run fig3 "$@"
