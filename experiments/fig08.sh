#!/bin/sh
# Figure 8: CNN on CIFAR-10, unbalanced partition, without attack, zoomed.
#   experiments/fig08.sh                     as published
#   experiments/fig08.sh --preset laptop     real data, a part of a day
#   experiments/fig08.sh --preset smoke      embedded data, minutes
set -eu
. "$(dirname -- "$0")/common.sh"
run fig8 "$@"
