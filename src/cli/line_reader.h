// Lines of a file in bounded memory.
#ifndef SPRAT_CLI_LINE_READER_H_
#define SPRAT_CLI_LINE_READER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "cli/input_file.h"
#include "sprat/result.h"

namespace sprat::cli {

inline constexpr size_t kMaxLineBytes{16 << 20};

// Reads a file line by line; line n of the file is the n-th line returned. A line ends with LF or
// CR LF; the last one may end with the file instead. A byte order mark at the start of the file is
// dropped. Memory: the longest line and 64 KB.
class LineReader {
 public:
  explicit LineReader(InputFile file, size_t limit_bytes = kMaxLineBytes)
      : file_(std::move(file)), limit_bytes_(limit_bytes) {}

  // The next line without its end, valid until the next call; nullopt after the last. Blocks only
  // until the line is complete.
  // Errors: kInvalidArgument if the line is longer than the limit (which counts the line's end) or
  // not UTF-8, naming file, line and byte (counted from 1 within the line); kIo.
  Result<std::optional<std::string_view>> Next();

  // The same, with the line's end.
  Result<std::optional<std::string_view>> NextRaw();

  size_t number() const { return number_; }  // of the line returned last, counted from 1
  const InputFile& file() const { return file_; }
  uint64_t bytes_read() const { return bytes_read_; }

 private:
  Result<bool> Fill();  // false at the end of the file
  Error NotUtf8(std::string_view line, size_t at) const;

  InputFile file_;
  size_t limit_bytes_;
  std::string buffer_;  // of which [begin_, end_) is read and not yet returned
  size_t begin_ = 0;
  size_t end_ = 0;
  size_t number_ = 0;
  uint64_t bytes_read_ = 0;
  bool at_start_ = true;
  bool utf16_ = false;  // starts with a UTF-16 byte order mark
};

}  // namespace sprat::cli

#endif  // SPRAT_CLI_LINE_READER_H_
