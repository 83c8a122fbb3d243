#!/usr/bin/env python3
"""Checks that every #include keeps to the map of docs/architecture.md.

    check_layers.py [ROOT]    prints each breach as FILE:LINE: what, and fails if there is one

The tables below are the map. What is not allowed here is forbidden: a module that has no row, a
header of a module that the row does not name, a third-party header outside its modules, a private
header in a front end, anything but the standard library in a public header, a test-only header
outside tests. The DEPS of each module's CMakeLists.txt are held to the same rows, and
docs/architecture.md to the same table.
"""

import pathlib
import re
import sys

# Module -> modules whose headers it may include, besides its own.
LAYERS = {
    "base": set(),
    "kernels": {"base"},
    "tokenizer": {"base"},
    "model": {"base"},
    "encoder": {"base", "kernels", "model"},
    "static_model": {"base", "kernels", "model"},
    "ngram": {"base", "kernels", "model"},
    "gpu": {"base", "model", "encoder", "static_model", "ngram"},
    "batcher": {"base"},
    "engine": {
        "base", "kernels", "tokenizer", "model", "encoder", "static_model", "ngram", "gpu",
        "batcher",
    },
    "server": {"base"},
    "cli": {"base", "server"},
    "capi": set(),
    "python": set(),
}  # fmt: skip

FRONT_ENDS = {"server", "cli", "capi", "python"}

# Public headers that modules below the engine may include; engine and front ends take all.
PUBLIC_BELOW_ENGINE = {
    "sprat/result.h": set(LAYERS), "sprat/ngram.h": {"ngram", "gpu"}, "sprat/ngram_gpu.h": {"gpu"},
}  # fmt: skip

# Third-party headers, by the beginning of their name -> modules that may include them.
THIRD_PARTY = {
    "fmt/": set(LAYERS),
    "simdjson.h": {"tokenizer", "model", "static_model", "ngram", "server", "cli"},
    "openssl/": {"model", "engine", "ngram", "server", "cli"},
    "liburing.h": {"ngram"},
    "boost/": {"server"},
    "prometheus/": {"server"},
    "spdlog/": {"server", "cli"},
    "CLI/": {"cli"},
    "cuda": {"gpu"},
    "cooperative_groups": {"gpu"},
    "mma.h": {"gpu"},
    "nvml.h": {"gpu"},
    "cublas": {"gpu"},
    "nanobind/": {"python"},
    "Python.h": {"python"},
}

# Allowed in tests and benchmarks of every module, and nowhere else.
TEST_ONLY = ("gtest/", "gmock/", "benchmark/")

# Intrinsics: only in files that are named after an instruction set. <xmmintrin.h> is in the
# baseline of x86-64 and holds the control register for denormals.
INTRINSICS = {"emmintrin.h", "immintrin.h", "x86intrin.h", "arm_neon.h", "arm_sve.h", "arm_bf16.h"}
BASELINE_INTRINSICS = {"xmmintrin.h"}
ISA_FILE = re.compile(r"(avx|sse|amx|neon|sve)")

STANDARD = set(
    """
    algorithm any array atomic barrier bit bitset cassert cctype cerrno cfenv cfloat charconv chrono
    cinttypes climits clocale cmath compare complex concepts condition_variable coroutine csetjmp
    csignal cstdarg cstddef cstdint cstdio cstdlib cstring ctime cuchar cwchar cwctype deque
    exception execution filesystem format forward_list fstream functional future initializer_list
    iomanip ios iosfwd iostream istream iterator latch limits list locale map memory memory_resource
    mutex new numbers numeric optional ostream queue random ranges ratio regex scoped_allocator
    semaphore set shared_mutex source_location span sstream stack stdexcept stop_token streambuf
    string string_view syncstream system_error thread tuple type_traits typeindex typeinfo
    unordered_map unordered_set utility valarray variant vector version cxxabi.h
    """.split()
)
# The C headers, which a C header of the public API needs.
STANDARD_C = {"stddef.h", "stdint.h", "stdbool.h"}
POSIX = set(
    """
    aio.h cpuid.h dirent.h dlfcn.h elf.h fcntl.h fnmatch.h glob.h libgen.h malloc.h netdb.h
    netinet/in.h netinet/tcp.h arpa/inet.h poll.h pthread.h sched.h signal.h spawn.h stdlib.h
    termios.h time.h unistd.h
    """.split()
)

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
SOURCES = {".h", ".cc", ".cu", ".cuh", ".inc"}


def is_test(path: pathlib.Path) -> bool:
    """Tests, benchmarks, fuzzers and what only they link."""
    return bool(re.search(r"(_test|_bench|_fuzz|_for_test)(\.|_)", path.name))


def is_system(name: str) -> bool:
    return name in STANDARD or name in POSIX or name.startswith(("sys/", "linux/", "asm/"))


def check_quoted(module: str, path: pathlib.Path, name: str) -> str | None:
    """What is wrong with `#include "name"` in a file of `module`, or None."""
    owner = name.split("/")[0] if "/" in name else None
    if owner is None:
        return f'"{name}" needs its folder: "{module}/{name}"'
    if name.endswith("_for_test.h") and not is_test(path):
        return f'"{name}" is for tests only'
    if owner == "sprat":
        whole_api = module == "engine" or module in FRONT_ENDS
        if whole_api or module in PUBLIC_BELOW_ENGINE.get(name, ()):
            return None
        return f'"{name}" is the engine\'s API; module {module} lies below it'
    if owner == module or owner in LAYERS[module]:
        return None
    if owner not in LAYERS:
        return f'"{name}" belongs to no module of the map'
    if module in FRONT_ENDS:
        return f'"{name}" is private; the front end {module} uses base and include/sprat/ only'
    return f'module {module} may not include "{name}"'


def check_angled(module: str, path: pathlib.Path, name: str) -> str | None:
    """What is wrong with `#include <name>` in a file of `module`, or None."""
    if is_system(name):
        return None
    if name.startswith(TEST_ONLY):
        return None if is_test(path) else f"<{name}> is for tests and benchmarks"
    if name in INTRINSICS:
        if ISA_FILE.search(path.name):
            return None
        return f"<{name}>: intrinsics live in files named after an instruction set"
    if name in BASELINE_INTRINSICS and module in {"base", "kernels"}:
        return None
    for prefix, modules in THIRD_PARTY.items():
        if name.startswith(prefix):
            return None if module in modules else f"module {module} may not include <{name}>"
    if module == "capi" and name in STANDARD_C:
        return None
    return f"<{name}> is no header that the map knows"


def check_public(name: str, quoted: bool) -> str | None:
    """What is wrong with an #include in a public header, or None."""
    if quoted:
        return None if name.startswith("sprat/") else f'public headers may not include "{name}"'
    if name in STANDARD or name in STANDARD_C:
        return None
    return f"public headers use the standard library only, not <{name}>"


def includes(path: pathlib.Path):
    """Yields (line number, is quoted, name) for each #include in the file."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if match := INCLUDE.match(line):
            yield number, match[1] == '"', match[2]


def check_sources(root: pathlib.Path) -> list[str]:
    """Breaches in src/ and include/."""
    problems = []
    for folder in sorted(p for p in (root / "src").iterdir() if p.is_dir()):
        module = folder.name
        if module not in LAYERS:
            problems.append(f"src/{module}: no such module in the map")
            continue
        for path in sorted(p for p in folder.rglob("*") if p.suffix in SOURCES):
            for number, quoted, name in includes(path):
                check = check_quoted if quoted else check_angled
                if problem := check(module, path, name):
                    problems.append(f"{path.relative_to(root)}:{number}: {problem}")
    for path in sorted((root / "include").rglob("*.h")):
        for number, quoted, name in includes(path):
            if problem := check_public(name, quoted):
                problems.append(f"{path.relative_to(root)}:{number}: {problem}")
    return problems


def cmake_dependencies(text: str) -> dict[str, set[str]]:
    """Module -> DEPS of the sprat_module calls in a CMakeLists.txt."""
    found = {}
    for call in re.findall(r"sprat_module\(([^)]*)\)", re.sub(r"#.*", "", text)):
        words = call.split()
        keyword, deps = None, set()
        for word in words[1:]:
            if word in {"SOURCES", "DEPS", "LIBS", "TESTS", "THREAD_TESTS", "BENCHMARKS"}:
                keyword = word
            elif keyword == "DEPS":
                deps.add(word)
        found[words[0]] = deps
    return found


def check_cmake(root: pathlib.Path) -> list[str]:
    """Modules that CMake links to more than their row."""
    problems = []
    for path in sorted((root / "src").glob("*/CMakeLists.txt")):
        for module, deps in cmake_dependencies(path.read_text(encoding="utf-8")).items():
            # Front ends are linked to the engine, whose public headers they use.
            allowed = LAYERS.get(module, set()) | ({"engine"} if module in FRONT_ENDS else set())
            for extra in sorted(deps - allowed):
                problems.append(f"{path.relative_to(root)}: {module} may not depend on {extra}")
    return problems


def document_rows(text: str) -> dict[str, set[str]]:
    """The table of docs/architecture.md: module -> what it may include."""
    rows = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) != 3 or not cells[0].startswith("`"):
            continue
        for module in re.findall(r"`(\w+)`", cells[0]):
            allowed = set(re.findall(r"`(\w+)`", cells[2]))
            if cells[2] == "all of the above":
                allowed = set(rows)
            rows[module] = allowed
    return rows


def check_document(root: pathlib.Path) -> list[str]:
    """Rows of docs/architecture.md that differ from LAYERS; a row is due when its folder exists."""
    path = root / "docs" / "architecture.md"
    if not path.exists():
        return ["docs/architecture.md: missing"]
    rows = document_rows(path.read_text(encoding="utf-8"))
    problems = []
    for module, allowed in rows.items():
        if module not in LAYERS:
            problems.append(f"docs/architecture.md: {module} is not in tools/check_layers.py")
            continue
        expected = LAYERS[module] & set(rows)  # the document names what exists
        if allowed != expected:
            problems.append(
                f"docs/architecture.md: {module} may include {sorted(allowed)}, "
                f"tools/check_layers.py says {sorted(expected)}"
            )
    for folder in sorted(p for p in (root / "src").iterdir() if p.is_dir()):
        if folder.name in LAYERS and folder.name not in rows:
            problems.append(f"docs/architecture.md: no row for {folder.name}")
    return problems


def check(root: pathlib.Path) -> list[str]:
    return check_sources(root) + check_cmake(root) + check_document(root)


def main() -> int:
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    problems = check(root)
    print("\n".join(problems) if problems else "every #include keeps to the map")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
