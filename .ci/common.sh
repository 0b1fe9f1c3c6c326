# What both runs share. Sourced, never run.

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# pip says errors only, and a run that has broken down does not go on failing: what is printed is what is wrong.
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_QUIET=2
export PYTEST_ADDOPTS="--maxfail=12"
# Two cores are busy with more than the model here: one thread is faster than two that wait for each other.
export CODEACT_LOCAL_THREADS=1

work=$(mktemp -d)
# A full disk looks like anything but a full disk.
trap 'test $? -eq 0 || df -h . "$work"; rm -rf "$work"' EXIT

step() { printf '\n=== %s (%ss)\n' "$*" "$SECONDS"; }

# Run something beside the steps that follow: beside NAME COMMAND… . `joined NAME` waits for it, and fails as it did.
declare -A besides
beside() {
    "${@:2}" >"$work/$1.log" 2>&1 &
    besides[$1]=$!
}
joined() {
    wait "${besides[$1]}" || { cat "$work/$1.log"; return 1; }
    cat "$work/$1.log"
}

# The files in which tests have a mark: marked 'MARK|…'. To collect all others, too, takes each process ten seconds.
marked() { grep -rlE "mark\.($1)\b" --include='test_*.py' tests; }

# Have a program of Debian's: needs PROGRAM [PACKAGE].
needs() {
    if ! command -v "$1" >/dev/null; then
        apt-get update -qq >/dev/null
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${2:-$1}" >/dev/null 2>&1
    fi
}

# The first Python 3.11 that there is.
python311() {
    for candidate in python3.11 "$HOME"/.pyenv/versions/3.11.*/bin/python python3; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    echo "no Python 3.11 here" >&2
    return 1
}

# The newest one that there is.
newer_python() {
    for candidate in python3.13 "$HOME"/.pyenv/versions/3.13.*/bin/python python3.12 "$HOME"/.pyenv/versions/3.12.*/bin/python; do
        if "$candidate" -c 'import sys, venv; sys.exit(sys.version_info[:2] < (3, 12))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    echo "no Python newer than 3.11 here" >&2
    return 1
}

# The ends of the range of versions that pyproject declares: `.ci/full versions` runs everything at both.

oldest_versions() {
    step "an environment of Python 3.11 with the oldest versions"
    "$(python311)" -m venv "$work/oldest"
    "$work/oldest/bin/pip" install -c .ci/oldest.txt -e ".[test]"
}

newest_versions() {
    "$(newer_python)" -m venv "$work/newest"
    "$work/newest/bin/pip" install -e ".[mcp,otel,test]"
}

# The README's command of a kind, exactly as it stands there: the fenced line under "<!-- command: KIND -->".
readme_command() {
    awk -v mark="<!-- command: $1 -->" '$0 == mark { found = 1; next } found && /^```/ { inside++; next }
        found && inside == 1 { print; exit }' README.md
}

fresh_environment() {
    step "a fresh environment of Python 3.11"
    "$(python311)" -m venv "$work/env"
    # shellcheck disable=SC1091
    . "$work/env/bin/activate"
}
