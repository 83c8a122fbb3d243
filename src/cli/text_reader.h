// Texts from files of lines, JSON lines or CSV, one at a time or in bounded chunks.
#ifndef SPRAT_CLI_TEXT_READER_H_
#define SPRAT_CLI_TEXT_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sprat/result.h"

namespace sprat::cli {

struct TextSource {
  std::vector<std::string> paths;   // read in this order; "-", or none at all: standard input
  std::string format = "lines";     // "lines", "jsonl" or "csv"
  std::string text_field = "text";  // the member of a JSON object, the column of a CSV header
  bool may_be_empty = false;        // otherwise a file without a text is an error
};

// Where a text was found.
struct TextPlace {
  size_t file = 0;  // index into TextSource::paths
  size_t line = 0;  // counted from 1
};

// Texts as Engine::Embed takes them. The views are valid until the chunk changes.
struct TextChunk {
  std::string bytes;
  std::vector<std::string_view> texts;
  std::vector<TextPlace> places;
};

// Reads the texts of a TextSource in order. Each file yields one text a line (lines: the line,
// blank or not; jsonl: a JSON string, or an object's member `text_field`), or one a record (csv:
// the column `text_field`, or the only column; blank lines between records of several columns are
// passed over). Texts are UTF-8 and at most kMaxLineBytes long.
// Errors name file and line: kNotFound, kIo, kInvalidArgument (line_reader.h and csv_reader.h; a
// line that is not JSON, a member or column that is missing or not a string, a header that names
// the column twice, a record with another number of fields than the header, a file without a text).
class TextReader {
 public:
  // Fails at once if any of the files cannot be opened. Pipes and devices are opened when it is
  // their turn, once.
  static Result<TextReader> Open(const TextSource& source);

  TextReader(TextReader&&) noexcept;
  TextReader& operator=(TextReader&&) noexcept;
  ~TextReader();

  // The next text, valid until the next call; nullopt after the last.
  Result<std::optional<std::string_view>> Next();

  // Replaces `chunk` by the next texts: at most max_texts of them, and no further one once they
  // hold max_bytes. An empty chunk means the end.
  Result<void> Fill(size_t max_texts, size_t max_bytes, TextChunk& chunk);

  TextPlace place() const;                             // of the text returned last
  std::string Describe(const TextPlace& place) const;  // "texts.txt: line 3"
  // Share of the input that has been read, if the sizes of all files are known.
  std::optional<double> fraction() const;

 private:
  class Impl;
  explicit TextReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sprat::cli

#endif  // SPRAT_CLI_TEXT_READER_H_
