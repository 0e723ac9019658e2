#!/bin/sh
# Figure 5: CNN on CIFAR-10, epochs to reach a training loss over alpha: unbalanced partition, q=2.
#   experiments/fig05.sh                     as published
#   experiments/fig05.sh --preset laptop     real data, a part of a day
#   experiments/fig05.sh --preset smoke      embedded data, minutes
set -eu
. "$(dirname -- "$0")/common.sh"
run fig5 "$@"
