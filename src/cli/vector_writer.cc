#include "cli/vector_writer.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <span>

#include "cli/json_writer.h"
#include "cli/npy.h"

namespace sprat::cli {
namespace {

static_assert(std::endian::native == std::endian::little, "rows are written as they are");

bool AllFinite(std::span<const float> row) {
  for (const float x : row) {
    if (!std::isfinite(x)) return false;
  }
  return true;
}

}  // namespace

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
