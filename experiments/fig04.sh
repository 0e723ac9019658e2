#!/bin/sh
# Figure 4: CNN on CIFAR-10, unbalanced partition, label-flipping attack.
#   experiments/fig04.sh                     as published
#   experiments/fig04.sh --preset laptop     real data, a part of a day
#   experiments/fig04.sh --preset smoke      embedded data, minutes
set -eu
. "$(dirname -- "$0")/common.sh"
run fig4 "$@"
