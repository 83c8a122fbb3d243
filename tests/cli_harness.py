"""What the tests of the command line share: run sprat, read what it wrote."""

import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

from tiny_static import write_static_model

SPRAT = os.environ["SPRAT_BINARY"]
TINY_MODEL = os.environ["SPRAT_TINY_MODEL"]  # written by cli_model


class SpratTest(unittest.TestCase):
    """Runs in an empty folder which is also HOME, with the tiny model."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="sprat_cli_"))
        self.addCleanup(shutil.rmtree, self.folder)
        keep = ("PATH", "LD_LIBRARY_PATH", "SPRAT_FORCE_ISA", "ASAN_OPTIONS", "UBSAN_OPTIONS")
        self.env = {name: os.environ[name] for name in keep if name in os.environ}
        self.env.update(HOME=str(self.folder), SPRAT_MODEL=TINY_MODEL)

    def run_sprat(self, *args, stdin=b"", status=0, **options):
        """Runs sprat, checks its exit status, returns (stdout, stderr as text)."""
        if isinstance(stdin, str):
            stdin = stdin.encode()
        done = subprocess.run(
            [SPRAT, *map(str, args)], input=stdin, capture_output=True, cwd=self.folder,
            env=self.env, timeout=120, **options)
        errors = done.stderr.decode(errors="replace")
        self.assertEqual(done.returncode, status, errors)
        return done.stdout, errors

    def rows(self, *args, **options):
        """The objects that a command printed, one a line."""
        out, _ = self.run_sprat(*args, **options)
        return [json.loads(line) for line in out.splitlines()]

    def vectors(self, stdin, *args):
        return [row["embedding"] for row in self.rows("embed", *args, stdin=stdin)]

    def write(self, name, content):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def write_static_model(self, name, rows, config):
        return write_static_model(self.folder / name, TINY_MODEL, rows, config)

    def start(self, *args, **options):
        return subprocess.Popen([SPRAT, *map(str, args)], cwd=self.folder, env=self.env, **options)


def read_npy(data):
    """(shape, values) of a version 1.0 file of f32 in C order."""
    assert data[:8] == b"\x93NUMPY\x01\x00", data[:8]
    (length,) = struct.unpack_from("<H", data, 8)
    header = eval(data[10:10 + length].decode("latin1"), {})
    assert header["descr"] == "<f4" and not header["fortran_order"], header
    shape = header["shape"]
    return shape, struct.unpack(f"<{shape[0] * shape[1]}f", data[10 + length:])


def npy(rows):
    """A .npy file as numpy writes it."""
    header = repr({"descr": "<f4", "fortran_order": False, "shape": (len(rows), len(rows[0]))})
    header = header.encode().ljust(117) + b"\n"
    values = [x for row in rows for x in row]
    return (b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header +
            struct.pack(f"<{len(values)}f", *values))


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def main():
    unittest.main(argv=sys.argv[:1], verbosity=1)
