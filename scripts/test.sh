#!/usr/bin/env bash
# Runs the tests in parts side by side, since none keeps two cores busy; with --all-faults those of every
# fault, and what is marked thorough elsewhere. Options go to pytest:
#
#     scripts/test.sh --extended
#
# Prints what each part said when all have ended. Exit code 0 only if all parts passed.
set -euo pipefail
cd "${BASH_SOURCE[0]%/*}/.."

output=$(mktemp -d)
parts=()

signal() { # signal NAME: to all parts that still run; fails if there is none
    local part status=1
    for part in ${parts[@]+"${parts[@]}"}; do
        kill "-$1" -- "-$part" 2>/dev/null && status=0
    done
    return "$status"
}

end() { # a part that still runs ends its servers, as after Ctrl-C
    trap '' INT TERM HUP
    local patience=30
    signal INT || true
    while signal 0 && ((patience--)); do
        sleep 1
    done
    signal KILL || true # whoever started this may have told it to ignore SIGINT; servers end with their owner
    wait
    cat "$output"/*
    rm -rf "$output"
}
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

run() { # run NAME OPTION...
    (
        trap : INT # pytest ends by it, and then this says how
        status=0
        .venv/bin/python -m pytest "${@:2}" || status=$?
        echo "== $1: exit status $status after $SECONDS s"
        echo
        exit "$status"
    ) >"$output/$1" 2>&1 </dev/null &
    parts+=($!)
}

count() { # what has become of the tests of all parts together
    grep -hE '^[0-9]+ .* in [0-9.]+s' "$output"/* | grep -oE '[0-9]+ [a-z]+' |
        awk '{ sub(/errors/, "error"); sum[$2] += $1 } END { for (word in sum) print sum[word], word }' |
        sort -rn | paste -sd, - | sed 's/,/, /g'
}

set -m # each part is a process group, and does not ignore SIGINT
# So divided the parts end at about the same time.
if [[ " $* " == *" --all-faults "* ]]; then
    run crashes tests/faults/test_crash_points.py "$@"
    run others tests/faults --ignore=tests/faults/test_crash_points.py "$@"
    run variants -m thorough --ignore=tests/faults "$@"
else
    run faults tests/faults tests/pipeline tests/spark/test_maintain.py "$@"
    run kafka,small tests/kafka tests/dags tests/model tests/store tests/unit "$@"
    run spark tests/spark --ignore=tests/spark/test_maintain.py "$@"
    run others --ignore=tests/faults --ignore=tests/pipeline --ignore=tests/spark \
        --ignore=tests/kafka --ignore=tests/dags --ignore=tests/model --ignore=tests/store \
        --ignore=tests/unit "$@"
fi
set +m

failed=0
for part in "${parts[@]}"; do
    wait "$part" || failed=1
done
echo "== all: $(count) in $SECONDS s" >"$output/sum" # which sorts after the parts
exit "$failed"
