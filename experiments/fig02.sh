#!/bin/sh
# Figure 2: CNN on CIFAR-10, unbalanced partition, without attack.
#   experiments/fig02.sh                     as published
#   experiments/fig02.sh --preset laptop     real data, a part of a day
#   experiments/fig02.sh --preset smoke      embedded data, minutes
set -eu
. "$(dirname -- "$0")/common.sh"
run fig2 "$@"
