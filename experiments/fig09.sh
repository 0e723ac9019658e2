#!/bin/sh
# Figure 9: CNN on CIFAR-10, balanced partition, label-flipping attack, zoomed.
#   experiments/fig09.sh                     as published
#   experiments/fig09.sh --preset laptop     real data, a part of a day
#   experiments/fig09.sh --preset smoke      embedded data, minutes
set -eu
. "$(dirname -- "$0")/common.sh"
run fig9 "$@"
