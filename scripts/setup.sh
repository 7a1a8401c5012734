#!/usr/bin/env bash
# Makes .venv and jars/ as requirements.txt and ivy.xml say. Does nothing where they are up to date, and starts
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

# A stamp is written last, and names the tree that it is for: a virtual environment cannot be moved.
venv_stamp=".venv/.complete"
jars_stamp="jars/.complete"

is_done() {  # is_done STAMP INPUT...: the stamp is this tree's and newer than every input
  local stamp="$1" input
  [[ -f "$stamp" && "$(< "$stamp")" == "$PWD" ]] || return 1
  for input in "${@:2}"; do
    [[ "$input" -nt "$stamp" ]] && return 1
  done
  return 0
}

if ! is_done "$venv_stamp" requirements.txt scripts/setup.sh; then
  python="${PYTHON:-python3}"
  "$python" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2> /dev/null ||
    fail "Install Python 3.11 or newer with its venv module, or name such a Python in PYTHON."
  if [[ ! -f "$venv_stamp" || "$(< "$venv_stamp")" != "$PWD" ]]; then
    echo "Making .venv with $("$python" --version)"
    "$python" -m venv --clear .venv
  fi
  rm -f "$venv_stamp"
  echo "Installing requirements.txt"
  uv="$(grep '^uv==' requirements.txt)"
  .venv/bin/python -m pip install --quiet --disable-pip-version-check "$uv"
  .venv/bin/uv pip install --quiet --python .venv/bin/python -r requirements.txt
  echo "$PWD" > "$venv_stamp"
fi

# The folder is looked into as well, since a jar is easily deleted by hand.
jars_expected="$(grep -c '<dependency ' ivy.xml)"
jars_present=(jars/*.jar)
if ! is_done "$jars_stamp" ivy.xml scripts/setup.sh || (( ${#jars_present[@]} != jars_expected )); then
  echo "Fetching the jars of ivy.xml"
  ivy=(.venv/lib/python*/site-packages/pyspark/jars/ivy-*.jar)
  rm -rf jars
  mkdir jars
  # Ivy draws its progress in dots, whatever its log level.
  if ! "$java" -jar "${ivy[0]}" -warn -ivy ivy.xml -retrieve "jars/[artifact]-[revision].[ext]" > jars/ivy.log; then
    cat jars/ivy.log >&2
    fail "The jars could not be fetched: mend what Ivy says above and run make setup again."
  fi
  echo "$PWD" > "$jars_stamp"
  echo "Ready: make run shows it at work, make help lists the rest."
fi
