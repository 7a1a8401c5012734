#!/usr/bin/env bash
# Makes .venv as requirements.txt says, with the project installed in it and the jars that Spark needs; with
# --production as requirements-production.txt says, without what tests and development need. Does nothing where
# they are up to date, and starts anew where an earlier call was cut short.
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

case "$*" in
  "") requirements=requirements.txt ;;
  --production) requirements=requirements-production.txt ;;
  *) fail "scripts/setup.sh knows the option --production, and was given $*. Call it with that or with none." ;;
esac

# What a link points to would be emptied with it.
[[ -L .venv ]] && fail ".venv is a link to $(readlink .venv). Remove the link, so that an environment can be made here."

# The stamp is written last, and names the tree that it is for: a virtual environment cannot be moved.
stamp=".venv/.complete"
stamped="$PWD${1:+ $1}"

is_done() {  # is_done INPUT...: the stamp is this tree's and newer than every input
  local input
  [[ -f "$stamp" && "$(< "$stamp")" == "$stamped" ]] || return 1
  for input in "$@"; do
    [[ "$input" -nt "$stamp" ]] && return 1
  done
  return 0
}

inputs=("$requirements" requirements-build.txt pyproject.toml acker/runtime/server/ivy.{xml,sha256} scripts/setup.sh)
if ! is_done "${inputs[@]}"; then
  python="${PYTHON:-python3}"
  "$python" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2> /dev/null ||
    fail "Install Python 3.11 or newer with its venv module, or name such a Python in PYTHON."
  if [[ ! -f "$stamp" || "$(< "$stamp")" != "$stamped" ]]; then
    echo "Making .venv with $("$python" --version)"
    "$python" -m venv --clear .venv
  fi
  rm -f "$stamp"
  echo "Installing $requirements"
  # pip brings uv, which brings the rest. Both refuse a file whose hash is not listed.
  sed -n '/^uv==/,/[^\\]$/p' "$requirements" > .venv/uv.txt
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement .venv/uv.txt
  install=(.venv/bin/uv pip install --quiet --python .venv/bin/python)
  install+=(--build-constraints requirements-build.txt --require-build-hashes)
  "${install[@]}" --require-hashes --requirement "$requirements"
  "${install[@]}" --no-deps --editable .
  .venv/bin/acker setup
  echo "$stamped" > "$stamp"
  echo "Ready: make run shows it at work, make help lists the rest."
fi
