#!/usr/bin/env bash
# Write py310.txt to py313.txt: what base.in and dev.in need, all of it pinned, for each Python that Weft runs on.
#
#     requirements/lock.sh              newest versions that go together
#     requirements/lock.sh --keep       keep the pins there are; add and drop only what base.in and dev.in ask for
#
# uv resolves for a Python that need not be installed; it is put into a scratch folder for the purpose. Only wheels
# are taken, since ./weft asks for no compiler, and x86_64 and aarch64 must come to the same versions. The files hold
# names and versions alone: no address and no hash of the index that they were resolved with.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

case "${1-}" in
    '' | --keep) ;;
    *) echo "lock.sh: unknown argument '$1': --keep, or none" >&2; exit 2 ;;
esac

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
/usr/bin/python3 -m venv "$scratch/venv"
"$scratch/venv/bin/python" -m pip install --quiet --disable-pip-version-check uv

for python in 3.10 3.11 3.12 3.13; do
    file=py${python/./}.txt
    for machine in x86_64 aarch64; do
        output=$scratch/$machine-$file
        if [[ ${1-} == --keep && -e $file ]]; then
            cp "$file" "$output"    # uv keeps the pins that it finds in its output file
        fi
        "$scratch/venv/bin/uv" pip compile --quiet --no-config --no-header --no-annotate --only-binary :all: \
            --python-version "$python" --python-platform "$machine-manylinux_2_28" \
            --output-file "$output" base.in dev.in
    done
    diff "$scratch/x86_64-$file" "$scratch/aarch64-$file" ||
        { echo "lock.sh: Python $python: x86_64 and aarch64 differ, as above" >&2; exit 1; }
    if grep -Evn '^[a-z0-9.-]+==[0-9][a-z0-9.+]*$' "$scratch/x86_64-$file"; then
        echo "lock.sh: Python $python: the lines above are not name==version" >&2
        exit 1
    fi
    {
        echo "# Python $python. Written by requirements/lock.sh: change base.in or dev.in and run that."
        cat "$scratch/x86_64-$file"
    } >"$file"
    echo "$file: $(grep -c == "$file") packages"
done
