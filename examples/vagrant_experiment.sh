#!/usr/bin/env bash
# An experiment in the machine of the Vagrantfile: Allgather by ring and by multicast at several rates, with its results as
# tables and as a plot in results/vagrant/.
#
#     vagrant up && vagrant ssh -c 'cd weft && sudo examples/vagrant_experiment.sh'
#     vagrant ssh -c 'cat weft/results/vagrant/runs.csv' >runs.csv
#
# It runs on any machine that Weft runs on, as root; OUT names another folder.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
out=${OUT:-results/vagrant}

mkdir -p "$out"
cat >"$out/experiment.toml" <<'END'
collective = "allgather"
algorithm = ["ring", "multicast"]
size = "1MiB"

[sweep]
rate = ["20Mbit", "50Mbit", "100Mbit"]

[[plot]]
x = "rate"
y = "completion"
END
./weft run "$out/experiment.toml" --out "$out"
./weft export "$out" --csv "$out/runs.csv"
./weft export "$out" --table links --csv "$out/links.csv"
