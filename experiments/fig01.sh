#!/bin/sh
# Figure 1: CNN, balanced partition, without attack. Metrics over epochs.
#   experiments/fig01.sh                     as published
#   experiments/fig01.sh --preset laptop     real data, hours
#   experiments/fig01.sh --preset smoke      embedded synthetic data, minutes
set -eu
. "$(dirname -- "$0")/common.sh"
run fig1 "$@"
