// Records of a CSV file (RFC 4180) in bounded memory.
#ifndef SPRAT_CLI_CSV_READER_H_
#define SPRAT_CLI_CSV_READER_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/line_reader.h"
#include "sprat/result.h"

namespace sprat::cli {

// Reads records of fields separated by commas. A field in double quotes may hold commas, line ends
// (kept as they are) and doubled quotes, which stand for one. A quote inside a field that does not
// start with one is itself, as most writers mean it. Records may end with LF or CR LF.
class CsvReader {
 public:
  explicit CsvReader(InputFile file, size_t limit_bytes = kMaxLineBytes)
      : lines_(std::move(file), limit_bytes), limit_bytes_(limit_bytes) {}

  // The fields of the next record, valid until the next call; nullopt after the last. A blank line
  // is a record of one empty field.
  // Errors: as LineReader, and kInvalidArgument, naming file and line, for a quote that is never
  // closed, for text between a closing quote and the next comma, and for a record over the limit.
  Result<std::optional<std::span<const std::string>>> Next();

  size_t number() const { return first_line_; }  // the line on which the last record starts
  const LineReader& lines() const { return lines_; }

 private:
  // One quoted field of which `rest` follows the opening quote. On success `rest` starts after the
  // closing quote.
  Result<void> Quoted(std::string_view& rest, std::string& field);

  LineReader lines_;
  size_t limit_bytes_;
  size_t first_line_ = 0;
  std::vector<std::string> fields_;
  size_t fields_used_ = 0;
};

}  // namespace sprat::cli

#endif  // SPRAT_CLI_CSV_READER_H_
