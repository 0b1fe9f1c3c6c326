# What both runs share. Sourced, never run.

cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PYTHONDONTWRITEBYTECODE=1
# Two cores are busy with more than the model here: one thread is faster than two that wait for each other.
export CODEACT_LOCAL_THREADS=1

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

step() { printf '\n=== %s (%ss)\n' "$*" "$SECONDS"; }

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

# A newer one, for the kernel that runs in another version than its host.
newer_python() {
    for candidate in python3.13 python3.12 "$HOME"/.pyenv/versions/3.1[23].*/bin/python; do
        if "$candidate" -c 'import sys, venv; sys.exit(sys.version_info[:2] < (3, 12))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    echo "no Python newer than 3.11 here" >&2
    return 1
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
