#!/bin/sh
# Where text and released code part: poisoned workers that start afresh, and from the pulled model.
set -eu
. "$(dirname -- "$0")/common.sh"
run ledger "$@"
