#!/bin/sh
# Figure 1: CNN on CIFAR-10, balanced partition, without attack.
#   experiments/fig01.sh                     as published
#   experiments/fig01.sh --preset laptop     real data, a part of a day
#   experiments/fig01.sh --preset smoke      embedded data, minutes
set -eu
. "$(dirname -- "$0")/common.sh"
run fig1 "$@"
