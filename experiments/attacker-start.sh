#!/bin/sh
# CNN, label-flipping attack (q=2 unless named), where poisoned workers start, balanced partition.
# Poisoned workers train from newly initialised parameters, as in the released code; from the
# pulled model, as in the paper's text; or from newly initialised parameters with pushes boosted 5
# times, as in the authors' development repository.
#   experiments/attacker-start.sh                     as published
#   experiments/attacker-start.sh --preset laptop     real data, hours
#   experiments/attacker-start.sh --preset smoke      embedded synthetic data, minutes
set -eu
. "$(dirname -- "$0")/common.sh"
run attacker-start "$@"
