#include "cli/vector_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <span>
#include <utility>

#include "cli/json_writer.h"
#include "cli/npy.h"

namespace sprat::cli {
namespace {

static_assert(std::endian::native == std::endian::little, "rows are written as they are");

constexpr std::pair<const char*, VectorFormat> kFormats[] = {{"jsonl", VectorFormat::kJsonl},
                                                             {"csv", VectorFormat::kCsv},
                                                             {"npy", VectorFormat::kNpy},
                                                             {"f32", VectorFormat::kF32}};

bool AllFinite(std::span<const float> row) {
  for (const float x : row) {
    if (!std::isfinite(x)) return false;
  }
  return true;
}

}  // namespace

VectorFormat ChooseVectorFormat(const std::string& name, const std::optional<std::string>& output) {
  std::string wanted = name;
  if (wanted.empty()) {
    wanted = std::filesystem::path(output.value_or("")).extension();
    wanted.erase(0, 1);  // the dot
    std::transform(wanted.begin(), wanted.end(), wanted.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  }
  for (const auto& [known, format] : kFormats) {
    if (wanted == known) return format;
  }
  return VectorFormat::kJsonl;
}

Result<OutputFile> CreateVectorFile(const std::optional<std::string>& output, VectorFormat format) {
  Result<OutputFile> file = OutputFile::Create(output);
  if (!file.ok()) return file;
  const bool binary = format == VectorFormat::kNpy || format == VectorFormat::kF32;
  if (!binary || !file.value().is_terminal()) return file;
  return Error(ErrorCode::kInvalidArgument,
               "binary vectors would go to the terminal: name a file with -o, or use a pipe");
}

Result<void> VectorWriter::BeginMatrix() {
  if (!out_.rewritable()) {
    Result<OutputFile> spool = OutputFile::Temporary();
    if (!spool.ok()) return std::move(spool.error());
    spool_.emplace(std::move(spool).value());
  }
  return Target().Write(NpyHeader(0, 0));
}

void VectorWriter::AppendRow(const Embeddings& rows, size_t i, std::string& text) const {
  const std::span<const float> row = rows.Row(i);
  if (format_ == VectorFormat::kNpy || format_ == VectorFormat::kF32) {
    text.append(reinterpret_cast<const char*>(row.data()), row.size_bytes());
    return;
  }
  if (format_ == VectorFormat::kCsv) {
    AppendNumbers(row, ",", text);
    text += '\n';
    return;
  }
  text += "{\"index\":";
  AppendNumber(rows_, text);
  text += ",\"tokens\":";
  AppendNumber(rows.tokens[i], text);
  text += rows.truncated[i] != 0 ? ",\"truncated\":true,\"embedding\":["
                                 : ",\"truncated\":false,\"embedding\":[";
  AppendNumbers(row, ",", text);
  text += "]}\n";
}

Result<void> VectorWriter::Add(const Embeddings& rows) {
  if (rows.rows() == 0) return {};
  if (format_ == VectorFormat::kNpy && rows_ == 0) {
    if (Result<void> begun = BeginMatrix(); !begun.ok()) return begun;
  }
  dimensions_ = rows.dimensions;
  std::string text;
  for (size_t i = 0; i < rows.rows(); ++i) {
    if (!AllFinite(rows.Row(i))) {
      return Error(ErrorCode::kInternal,
                   fmt::format("the vector of text {} holds NaN or infinity; --check-weights tells "
                               "whether the model's weights do",
                               rows_));
    }
    text.clear();
    AppendRow(rows, i, text);
    if (Result<void> written = Target().Write(text); !written.ok()) return written;
    ++rows_;
  }
  return {};
}

Result<void> VectorWriter::Finish() {
  if (format_ != VectorFormat::kNpy) return {};
  if (rows_ == 0) return out_.Write(NpyHeader(0, 0));
  Result<void> patched = Target().RewriteStart(NpyHeader(rows_, dimensions_));
  if (!patched.ok() || !spool_) return patched;
  return out_.Append(*spool_);
}

}  // namespace sprat::cli
