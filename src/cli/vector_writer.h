// Vectors in the formats of `embed`.
#ifndef SPRAT_CLI_VECTOR_WRITER_H_
#define SPRAT_CLI_VECTOR_WRITER_H_

#include <cstddef>
#include <optional>
#include <string>

#include "cli/output_file.h"
#include "sprat/engine.h"
#include "sprat/result.h"

namespace sprat::cli {

enum class VectorFormat {
  kJsonl,  // {"index":i,"tokens":n,"truncated":false,"embedding":[...]} a line
  kCsv,    // the values, separated by commas, a line; no header
  kNpy,    // one f32 matrix (npy.h)
  kF32,    // the values, little-endian, nothing else
};

// The format called `name` ("jsonl", "csv", "npy", "f32"); without a name that of the output's
// ending, in any case, or else kJsonl.
VectorFormat ChooseVectorFormat(const std::string& name, const std::optional<std::string>& output);

// Creates the file that vectors go to. Errors: those of OutputFile::Create; kInvalidArgument for a
// binary format on a terminal.
Result<OutputFile> CreateVectorFile(const std::optional<std::string>& output, VectorFormat format);

// Writes rows in order; row i belongs to the i-th text. Numbers in text are the shortest that read
// back as the same f32. A matrix whose size is known only at the end goes through a temporary file
// if the output cannot be rewritten.
class VectorWriter {
 public:
  // `out` outlives the writer.
  VectorWriter(OutputFile& out, VectorFormat format) : out_(out), format_(format) {}

  // Errors: kIo; kInternal if a value is NaN or infinite, naming the row; nothing of the rows from
  // that one on is written.
  Result<void> Add(const Embeddings& rows);

  // Completes the output, without committing it. Nothing may be added afterwards.
  Result<void> Finish();

  size_t rows() const { return rows_; }

 private:
  OutputFile& Target() { return spool_ ? *spool_ : out_; }
  Result<void> BeginMatrix();
  void AppendRow(const Embeddings& rows, size_t i, std::string& text) const;

  OutputFile& out_;
  VectorFormat format_;
  std::optional<OutputFile> spool_;
  size_t rows_ = 0;
  size_t dimensions_ = 0;
};

}  // namespace sprat::cli

#endif  // SPRAT_CLI_VECTOR_WRITER_H_
