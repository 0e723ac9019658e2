#!/bin/sh
# Every figure in one plan, and nothing twice.
#   experiments/all.sh --preset laptop --dry-run      what it would take
#   experiments/all.sh --preset laptop                do it; the same line goes on after a break
set -eu
. "$(dirname -- "$0")/common.sh"
run all "$@"
