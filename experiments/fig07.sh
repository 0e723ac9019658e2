#!/bin/sh
# Figure 7: CNN on CIFAR-10, balanced partition, without attack, zoomed.
#   experiments/fig07.sh                     as published
#   experiments/fig07.sh --preset laptop     real data, a part of a day
#   experiments/fig07.sh --preset smoke      embedded data, minutes
set -eu
. "$(dirname -- "$0")/common.sh"
run fig7 "$@"
