#!/bin/sh
# Figure 6: CNN on CIFAR-10, epochs to reach a training loss over alpha: balanced partition, without attack.
#   experiments/fig06.sh                     as published
#   experiments/fig06.sh --preset laptop     real data, a part of a day
#   experiments/fig06.sh --preset smoke      embedded data, minutes
set -eu
. "$(dirname -- "$0")/common.sh"
run fig6 "$@"
