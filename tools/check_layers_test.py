"""Shows check_layers.py failing on trees that break the map, and passing on one that does not."""

import pathlib
import tempfile
import unittest

import check_layers

DOCUMENT = """
| module | what lives there | may include |
|---|---|---|
| `base` | buffers | standard library |
| `kernels` | CPU operations | `base` |
| `model` | files | `base` |
| `encoder` | forward pass | `base` `kernels` `model` |
| `engine` | joins the parts | all of the above |
| `cli` | command line | `base`, public headers |
"""

GOOD = {
    "docs/architecture.md": DOCUMENT,
    "include/sprat/result.h": "#include <string>\n",
    "include/sprat/engine.h": '#include <span>\n#include "sprat/result.h"\n',
    "src/base/buffer.h": '#include <cstddef>\n#include "sprat/result.h"\n',
    "src/base/buffer_test.cc": '#include <gtest/gtest.h>\n#include "base/buffer.h"\n',
    "src/kernels/avx2.cc": '#include <immintrin.h>\n#include "base/buffer.h"\n',
    "src/encoder/encoder.cc": '#include <sys/mman.h>\n#include "base/buffer.h"\n',
    "src/encoder/CMakeLists.txt": "sprat_module(encoder\n  SOURCES a.cc DEPS base kernels LIBS z)",
    "src/engine/engine.cc": '#include <openssl/evp.h>\n#include "encoder/encoder.h"\n',
    "src/cli/main.cc": '#include <CLI/CLI.hpp>\n#include "sprat/engine.h"\n',
}


class CheckLayersTest(unittest.TestCase):
    def problems(self, changes):
        """What check() says about the good tree with `changes` (path -> text) made to it."""
        with tempfile.TemporaryDirectory() as scratch:
            root = pathlib.Path(scratch)
            for name, text in (GOOD | changes).items():
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            return check_layers.check(root)

    def assert_breach(self, changes, expected):
        found = self.problems(changes)
        self.assertEqual(len(found), 1, found)
        self.assertIn(expected, found[0])

    def test_good_tree_passes(self):
        self.assertEqual(self.problems({}), [])

    def test_upward_include(self):
        self.assert_breach(
            {"src/base/buffer.cc": '\n#include "encoder/encoder.h"\n'},
            'src/base/buffer.cc:2: module base may not include "encoder/encoder.h"',
        )

    def test_sideways_include(self):
        self.assert_breach(
            {"src/kernels/scalar.cc": '#include "model/config.h"\n'},
            'module kernels may not include "model/config.h"',
        )

    def test_unknown_module(self):
        self.assert_breach({"src/utils/strings.h": ""}, "src/utils: no such module in the map")

    def test_include_of_an_unknown_folder(self):
        self.assert_breach(
            {"src/encoder/x.cc": '#include "utils/strings.h"\n'}, "belongs to no module of the map"
        )

    def test_include_without_its_folder(self):
        self.assert_breach({"src/base/b.cc": '#include "buffer.h"\n'}, "needs its folder")

    def test_front_end_with_a_private_header(self):
        self.assert_breach(
            {"src/cli/embed.cc": '# include "encoder/encoder.h"\n'},
            "is private; the front end cli uses base and include/sprat/ only",
        )

    def test_engine_api_below_the_engine(self):
        self.assert_breach(
            {"src/encoder/x.cc": '#include "sprat/engine.h"\n'}, "module encoder lies below it"
        )

    def test_third_party_header_outside_its_modules(self):
        self.assert_breach(
            {"src/encoder/x.cc": "#include <simdjson.h>\n"},
            "module encoder may not include <simdjson.h>",
        )

    def test_unknown_third_party_header(self):
        self.assert_breach(
            {"src/engine/x.cc": "#include <Eigen/Core>\n"}, "no header that the map knows"
        )

    def test_third_party_header_in_a_public_header(self):
        self.assert_breach(
            {"include/sprat/x.h": "#include <fmt/core.h>\n"}, "use the standard library only"
        )

    def test_private_header_in_a_public_header(self):
        self.assert_breach(
            {"include/sprat/x.h": '#include "base/buffer.h"\n'}, "public headers may not include"
        )

    def test_test_header_outside_tests(self):
        self.assert_breach(
            {"src/base/b.cc": "#include <gtest/gtest.h>\n"}, "is for tests and benchmarks"
        )
        self.assert_breach(
            {"src/engine/b.cc": '#include "encoder/reference_for_test.h"\n'}, "is for tests only"
        )

    def test_intrinsics_outside_files_named_for_them(self):
        self.assert_breach({"src/kernels/scalar.cc": "#include <immintrin.h>\n"}, "intrinsics live")
        self.assert_breach({"src/base/thread.cc": "#include <arm_neon.h>\n"}, "intrinsics live")

    def test_cmake_dependency_outside_the_row(self):
        self.assert_breach(
            {"src/encoder/CMakeLists.txt": "sprat_module(encoder DEPS base engine TESTS t.cc)"},
            "encoder may not depend on engine",
        )

    def test_document_that_differs(self):
        row = "| `kernels` | CPU operations | `base` |"
        self.assert_breach(
            {"docs/architecture.md": DOCUMENT.replace(row, row.replace("`base`", "`base` `model`"))},
            "docs/architecture.md: kernels may include",
        )
        self.assert_breach(
            {"docs/architecture.md": DOCUMENT.replace("| `cli` | command line |", "| x | y |")},
            "docs/architecture.md: no row for cli",
        )


if __name__ == "__main__":
    unittest.main()
