#!/bin/bash
# install_packages.sh build|test: installs the Debian packages that building or testing needs and
# that are missing. Without root it says what to install and succeeds: what is needed and absent is
# then reported by the step that needs it.
set -euo pipefail

build_packages=(
  cmake ninja-build g++ libfmt-dev libsimdjson-dev libssl-dev liburing-dev libcli11-dev
  libboost1.81-dev libspdlog-dev  # the server
  python3 python3-pip  # fetch the model
)
test_packages=(
  "${build_packages[@]}"
  git ccache libgtest-dev libgmock-dev libbenchmark-dev clang-format-14 clang-tidy-14
  clang  # the fuzzers
  python3-venv  # the tests' own Python packages
  chromium  # the server's page
  qemu-user  # processors that are older than this one
  wordnet-base fortunes fortunes-min fortunes-de fortunes-ru fortunes-zh  # real texts to tokenize
)

case "${1:-}" in
  build) wanted=("${build_packages[@]}") ;;
  test) wanted=("${test_packages[@]}") ;;
  *) echo "usage: $0 build|test" >&2; exit 2 ;;
esac

if ! command -v dpkg-query >/dev/null; then
  echo "Not a Debian system. These Debian packages, or their like, are needed: ${wanted[*]}" >&2
  exit 0
fi
missing=()
for package in "${wanted[@]}"; do
  status=$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null || true)
  [[ $status == "install ok installed" ]] || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  exit 0
fi
if ((EUID != 0)); then
  echo "Missing packages; going on without them. To install them, as root:" >&2
  echo "  apt-get install --no-install-recommends ${missing[*]}" >&2
  exit 0
fi
echo "Installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
