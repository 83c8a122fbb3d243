#include "cli/npy.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/narrow_floats.h"
#include "cli/input_file.h"

namespace sprat::cli {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are copied as they are");

constexpr std::string_view kMagic{"\x93NUMPY"};

struct Header {
  std::string element;  // "<f4"
  bool fortran_order = false;
  std::vector<size_t> shape;
};

// What follows `'key':` in the literal, white space skipped.
std::optional<std::string_view> ValueOf(std::string_view literal, std::string_view key) {
  for (const char quote : {'\'', '"'}) {
    const std::string quoted = fmt::format("{0}{1}{0}", quote, key);
    size_t at = literal.find(quoted);
    if (at == std::string_view::npos) continue;
    at = literal.find_first_not_of(' ', at + quoted.size());
    if (at == std::string_view::npos || literal[at] != ':') return {};
    at = literal.find_first_not_of(' ', at + 1);
    if (at == std::string_view::npos) return {};
    return literal.substr(at);
  }
  return {};
}

// "(3, 384)" or "(3,)"; "()" is a shape of no dimension.
std::optional<std::vector<size_t>> ParseShape(std::string_view text) {
  std::vector<size_t> shape;
  const size_t close = text.find(')');
  if (!text.starts_with('(') || close == std::string_view::npos) return {};
  text = text.substr(1, close - 1);
  while (true) {
    const size_t start = text.find_first_not_of(" ,");
    if (start == std::string_view::npos) return shape;
    text.remove_prefix(start);
    size_t extent = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), extent);
    if (fault != std::errc()) return {};
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (text.starts_with('L')) text.remove_prefix(1);  // Python 2 wrote long integers so
    if (!text.empty() && text[0] != ',' && text[0] != ' ') return {};
    shape.push_back(extent);
  }
}

std::optional<Header> ParseHeader(std::string_view literal) {
  const auto element = ValueOf(literal, "descr");
  const auto order = ValueOf(literal, "fortran_order");
  const auto shape_text = ValueOf(literal, "shape");
  if (!element || !order || !shape_text) return {};
  Header header;
  const char quote = (*element)[0];
  if (quote == '\'' || quote == '"') {
    header.element = element->substr(1, element->find(quote, 1) - 1);
  } else {
    header.element = "a structured type";
  }
  header.fortran_order = order->starts_with("True");
  if (!header.fortran_order && !order->starts_with("False")) return {};
  std::optional<std::vector<size_t>> shape = ParseShape(*shape_text);
  if (!shape) return {};
  header.shape = std::move(*shape);
  return header;
}

size_t ElementBytes(std::string_view element) {
  if (element == "<f4") return 4;
  if (element == "<f2") return 2;
  if (element == "<f8") return 8;
  return 0;
}

float ElementAt(const char* elements, size_t i, size_t element_bytes) {
  const auto load = [&](auto value) {
    std::memcpy(&value, elements + i * sizeof(value), sizeof(value));
    return value;
  };
  if (element_bytes == 4) return load(float{});
  if (element_bytes == 8) return static_cast<float>(load(double{}));
  return HalfToFloat(load(uint16_t{}));
}

}  // namespace

std::string NpyHeader(size_t rows, size_t columns) {
  std::string header(kMagic);
  constexpr size_t kPrefixBytes{10};
  constexpr size_t kLiteralBytes{kNpyHeaderBytes - kPrefixBytes};
  header += {'\x01', '\x00', static_cast<char>(kLiteralBytes), '\x00'};
  header +=
      fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, columns);
  header.resize(kNpyHeaderBytes - 1, ' ');
  return header + '\n';
}

Result<Matrix> ParseNpy(std::span<const char> bytes, const std::string& name) {
  const auto corrupt = [&name](std::string_view what) {
    return Error(ErrorCode::kCorrupt, fmt::format("{}: {}", name, what));
  };
  const std::string_view file(bytes.data(), bytes.size());
  if (!file.starts_with(kMagic))
    return corrupt("not a .npy file: it does not start with \\x93NUMPY");
  if (file.size() < 12) return corrupt("the .npy header is cut off");
  const auto byte = [&file](size_t i) { return size_t{static_cast<unsigned char>(file[i])}; };
  if (byte(6) < 1 || byte(6) > 3) {
    return corrupt(fmt::format(".npy version {} is unknown; 1, 2 and 3 are supported", byte(6)));
  }
  const bool wide = byte(6) > 1;
  const size_t length = byte(8) | byte(9) << 8 | (wide ? byte(10) << 16 | byte(11) << 24 : 0);
  const size_t start = wide ? 12 : 10;
  if (length > file.size() - start) return corrupt("the .npy header is cut off");
  const std::optional<Header> header = ParseHeader(file.substr(start, length));
  if (!header) return corrupt("the .npy header has no valid descr, fortran_order and shape");
  const size_t element_bytes = ElementBytes(header->element);
  if (element_bytes == 0) {
    return Error(
        ErrorCode::kUnsupported,
        fmt::format("{}: elements of type '{}'; supported: <f4, <f2, <f8", name, header->element));
  }
  if (header->shape.size() != 2) {
    return Error(ErrorCode::kUnsupported,
                 fmt::format("{}: an array of shape ({}); expected (texts, dimensions)", name,
                             fmt::join(header->shape, ", ")));
  }
  Matrix matrix;
  matrix.rows = header->shape[0];
  matrix.columns = header->shape[1];
  const size_t data_bytes = file.size() - start - length;
  const bool overflows = matrix.columns != 0 && matrix.rows > data_bytes / matrix.columns;
  if (overflows || matrix.rows * matrix.columns * element_bytes != data_bytes) {
    return corrupt(
        fmt::format("shape ({}, {}) of '{}' does not match the {} bytes after the header",
                    matrix.rows, matrix.columns, header->element, data_bytes));
  }
  if (matrix.rows == 0 || matrix.columns == 0) return corrupt("holds no vector");
  const char* elements = file.data() + start + length;
  matrix.values.resize(matrix.rows * matrix.columns);
  for (size_t i = 0; i < matrix.rows; ++i) {
    for (size_t j = 0; j < matrix.columns; ++j) {
      const size_t from = header->fortran_order ? j * matrix.rows + i : i * matrix.columns + j;
      matrix.values[i * matrix.columns + j] = ElementAt(elements, from, element_bytes);
    }
  }
  return matrix;
}

Result<Matrix> ReadNpy(const std::string& path) {
  Result<InputFile> file = InputFile::Open(path);
  if (!file.ok()) return std::move(file.error());
  std::vector<char> bytes(file.value().size_bytes().value_or(0) + 4096);
  size_t used = 0;
  while (true) {
    if (used == bytes.size()) bytes.resize(2 * bytes.size());  // a pipe
    Result<size_t> n = file.value().Read(std::span(bytes).subspan(used));
    if (!n.ok()) return std::move(n.error());
    if (n.value() == 0) break;
    used += n.value();
  }
  return ParseNpy(std::span(bytes).first(used), file.value().name());
}

}  // namespace sprat::cli
