#!/bin/sh
# All figures, each run computed once.
#   experiments/all.sh --preset laptop --dry-run      what it will take
#   experiments/all.sh --preset laptop                compute and draw; run again to resume
set -eu
. "$(dirname -- "$0")/common.sh"
run all "$@"
