#!/usr/bin/env bash
# Write py310.txt to py313.txt: what base.in and dev.in need, all of it pinned, for each Python that Weft runs on. And
# shell.txt: what shell.in needs, with pins that serve all of these Pythons.
#
#     requirements/lock.sh              newest versions that go together
#     requirements/lock.sh --keep       keep the pins there are; add and drop only what the .in files ask for
#
# uv resolves for a Python that need not be installed; it is put into a scratch folder for the purpose. Only wheels
# are taken, since ./weft asks for no compiler, and x86_64 and aarch64 must come to the same versions. The files hold
# names and versions alone: no address and no hash of the index that they were resolved with.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

case "${1-}" in
    '') keep= ;;
    --keep) keep=yes ;;
    *) echo "lock.sh: unknown argument '$1': --keep, or none" >&2; exit 2 ;;
esac

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
/usr/bin/python3 -m venv "$scratch/venv"
"$scratch/venv/bin/python" -m pip install --quiet --disable-pip-version-check uv

# resolve FILE PYTHON IN...: pins what the .in files need for a Python, which is both kinds of machines' answer, into FILE.
resolve() {
    local file=$1 python=$2 machine output
    shift 2
    for machine in x86_64 aarch64; do
        output=$scratch/$machine-$file
        if [[ $keep && -e $file ]]; then
            cp "$file" "$output"    # uv keeps the pins that it finds in its output file
        fi
        "$scratch/venv/bin/uv" pip compile --quiet --no-config --no-header --no-annotate --only-binary :all: \
            --python-version "$python" --python-platform "$machine-manylinux_2_28" --output-file "$output" "$@"
    done
    diff "$scratch/x86_64-$file" "$scratch/aarch64-$file" ||
        { echo "lock.sh: $file, Python $python: x86_64 and aarch64 differ, as above" >&2; exit 1; }
    if grep -Evn '^[a-z0-9.-]+==[0-9][a-z0-9.+]*$' "$scratch/x86_64-$file"; then
        echo "lock.sh: $file, Python $python: the lines above are not name==version" >&2
        exit 1
    fi
}

# publish FILE TEXT...: puts what was resolved in its place, with a first line.
publish() {
    { echo "# ${*:2}"; cat "$scratch/x86_64-$1"; } >"$1"
    echo "$1: $(grep -c == "$1") packages"
}

for python in 3.10 3.11 3.12 3.13; do
    file=py${python/./}.txt
    resolve "$file" "$python" base.in dev.in
    publish "$file" "Python $python. Written by requirements/lock.sh: change base.in or dev.in and run that."
done

resolve shell.txt 3.10 shell.in
cp "$scratch/x86_64-shell.txt" "$scratch/shell.in"
for python in 3.11 3.12 3.13; do
    resolve "shell-$python.txt" "$python" "$scratch/shell.in"
    diff "$scratch/x86_64-shell.txt" "$scratch/x86_64-shell-$python.txt" ||
        { echo "lock.sh: shell.txt: Python $python needs other packages, as above" >&2; exit 1; }
done
publish shell.txt "Python 3.10 to 3.13. Written by requirements/lock.sh: change shell.in and run that."
