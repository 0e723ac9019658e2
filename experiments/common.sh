# Sourced by the other scripts: `run NAME ...` calls the command of this checkout (installed by
# `make`), or the one on PATH, or the one that SLSGD_MX names.
run() {
  here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd) || exit 1
  command=${SLSGD_MX:-$here/../.venv/bin/slsgd-mx}
  if [ -z "${SLSGD_MX:-}" ] && [ ! -x "$command" ]; then
    command=$(command -v slsgd-mx) || {
      echo "$0: no slsgd-mx found: run make demo first, or pip install ." >&2
      exit 1
    }
  fi
  "$command" "$@"
}
