#!/usr/bin/env bash
# Makes .venv as requirements.txt says, with the project installed in it and the jars that Spark needs. Does nothing where they are up to date, and starts
# anew where an earlier call was cut short.
set -euo pipefail
cd "${BASH_SOURCE[0]%/*}/.."

fail() {
  echo "$1" >&2
  exit 1
}

# Only builtins up to the checks, so that they hold whatever the PATH is.
if [[ -n "${JAVA_HOME:-}" ]]; then
  java="$JAVA_HOME/bin/java"
else
  java="java"
fi
version="$("$java" -version 2>&1)" || version=""
if [[ ! "$version" =~ version\ \"(17|21)[.\"+-] ]]; then
  fail "Install Java 17 or 21 and put it on the PATH or name its folder in JAVA_HOME."
fi

# The stamp is written last, and names the tree that it is for: a virtual environment cannot be moved.
stamp=".venv/.complete"

is_done() {  # is_done INPUT...: the stamp is this tree's and newer than every input
  local input
  [[ -f "$stamp" && "$(< "$stamp")" == "$PWD" ]] || return 1
  for input in "$@"; do
    [[ "$input" -nt "$stamp" ]] && return 1
  done
  return 0
}

if ! is_done requirements.txt pyproject.toml acker/runtime/ivy.{xml,sha256} scripts/setup.sh; then
  python="${PYTHON:-python3}"
  "$python" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2> /dev/null ||
    fail "Install Python 3.11 or newer with its venv module, or name such a Python in PYTHON."
  if [[ ! -f "$stamp" || "$(< "$stamp")" != "$PWD" ]]; then
    echo "Making .venv with $("$python" --version)"
    "$python" -m venv --clear .venv
  fi
  rm -f "$stamp"
  echo "Installing requirements.txt"
  uv="$(grep '^uv==' requirements.txt)"
  .venv/bin/python -m pip install --quiet --disable-pip-version-check "$uv"
  .venv/bin/uv pip install --quiet --python .venv/bin/python -r requirements.txt
  .venv/bin/uv pip install --quiet --python .venv/bin/python --no-deps --editable .
  .venv/bin/acker setup
  echo "$PWD" > "$stamp"
  echo "Ready: make run shows it at work, make help lists the rest."
fi
