"""The Vagrantfile's provisioning, run in a fresh root of Debian, and then the experiment for it.

No machine is booted: the kernel is this one's, and p4lang's packages, which are for Ubuntu, are not
installed. So what the test cannot show is that Vagrant's box comes up, and that its first
provisioner finds these packages.
"""

from __future__ import annotations

import csv
import os
import re
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from weft.base.cache import CHECKOUT

VAGRANTFILE = (CHECKOUT / "Vagrantfile").read_text()
SUITE = "bookworm"
CERTIFICATES = "/etc/machine-certificates.crt"
LOOKED_UP = ("etc/resolv.conf", "etc/hosts")
"""Files by which this machine finds others, which a new machine would have of its own."""
INSIDE = """
set -eu
mount --bind "$1" "$1"
cd "$1"
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
mount -t tmpfs tmpfs run
pivot_root . mnt
cd /
umount --lazy /mnt
shift
exec env --ignore-environment PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root "$@"
"""


def provisioner(name: str) -> str:
    (command,) = re.findall(
        rf'config\.vm\.provision "{name}", type: "shell", inline: "(.+)"', VAGRANTFILE
    )
    return str(command)


def folder_of_the_checkout() -> str:
    (folder,) = re.findall(r'synced_folder "\.", "(/home/[^"]+)", type: "rsync"', VAGRANTFILE)
    return str(folder)


def inside(root: Path, *command: str, timeout_s: float) -> str:
    """What a command prints in a root, which is that of a mount namespace of its own."""
    shell = ("bash", "-c", INSIDE, "inside", str(root))
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", *shell, *command],
        capture_output=True, text=True, timeout=timeout_s, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def make_root(root: Path) -> None:
    """A fresh Debian as a new machine is, but for the way to this machine's network."""
    debootstrap = ["debootstrap", "--variant=minbase", SUITE, str(root)]
    made = subprocess.run(debootstrap, capture_output=True, text=True, timeout=900, check=False)
    if made.returncode:
        pytest.skip(f"{' '.join(debootstrap)} failed: {made.stdout[-300:]}{made.stderr[-300:]}")
    for name in LOOKED_UP:
        shutil.copy(Path("/", name), root / name)
    for each in Path("/etc/apt/apt.conf.d").iterdir():
        if "Acquire::" in each.read_text() and "docker" not in each.name:
            shutil.copy(each, root / "etc/apt/apt.conf.d")
    trusted = os.environ.get("PIP_CERT") or ssl.get_default_verify_paths().cafile
    if trusted:
        shutil.copy(trusted, root / CERTIFICATES.lstrip("/"))


@pytest.mark.slow
@pytest.mark.system(alone=False)
@pytest.mark.skipif(os.geteuid() != 0, reason="a root of its own needs root")
@pytest.mark.skipif(shutil.which("debootstrap") is None, reason="debootstrap is not installed")
def test_the_vagrantfile_provisions_a_fresh_debian_and_its_experiment_runs(tmp_path: Path) -> None:
    root = tmp_path / "root"
    try:
        make_root(root)
        checkout = folder_of_the_checkout()
        place = root / checkout.lstrip("/")
        place.mkdir(parents=True)
        tracked = subprocess.run(
            ["git", "ls-files", "-z"], cwd=CHECKOUT, capture_output=True, check=False
        ).stdout
        if not tracked:
            pytest.skip("not a git checkout: what belongs to Weft cannot be told from the rest")
        packed = subprocess.run(
            ["tar", "--create", "--null", "--files-from=-"], cwd=CHECKOUT, input=tracked,
            capture_output=True, check=True,
        ).stdout  # fmt: skip
        subprocess.run(["tar", "--extract"], cwd=place, input=packed, check=True)
        trusted = [f"PIP_CERT={CERTIFICATES}"] if (root / CERTIFICATES.lstrip("/")).exists() else []
        inside(root, *trusted, *provisioner("weft").split(), timeout_s=1800)
        said = inside(root, f"{checkout}/examples/vagrant_experiment.sh", timeout_s=600)
        assert said.count(" ok ") + said.count(" strained ") + said.count(" invalid ") >= 6
        with open(place / "results" / "vagrant" / "runs.csv") as file:
            rows = list(csv.DictReader(file))
        assert [row["verified"] for row in rows] == ["True"] * 6
    finally:
        shutil.rmtree(root, ignore_errors=True)
