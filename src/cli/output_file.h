// Results: to standard output, or to a file that appears whole or not at all.
#ifndef SPRAT_CLI_OUTPUT_FILE_H_
#define SPRAT_CLI_OUTPUT_FILE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cli/input_file.h"
#include "sprat/result.h"

namespace sprat::cli {

// Bytes written in order. A regular file is written beside its place, under the same name with a
// random ending, and renamed by Commit; without Commit, on an error, SIGINT, SIGTERM or SIGHUP, the
// half-written file is removed and what was at the place before stays. The place is where symbolic
// links lead: the links stay. Devices and pipes are written to directly.
class OutputFile {
 public:
  // nullopt or "-": standard output. Errors, naming the path: kNotFound; kIo, which includes a
  // directory and a file that is write-protected (no write bit in its mode).
  static Result<OutputFile> Create(const std::optional<std::string>& path);

  // A nameless file in TMPDIR that is gone when it is closed.
  static Result<OutputFile> Temporary();

  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  // Writes go through a buffer of 64 KB. Errors: kIo with the path and the system's reason. A pipe
  // whose reader has gone ends the process by SIGPIPE, quietly.
  Result<void> Write(std::string_view bytes);
  Result<void> Flush();

  // Replaces bytes at the start of the file, all of which were written before. Requires
  // rewritable().
  Result<void> RewriteStart(std::string_view bytes);
  bool rewritable() const { return rewritable_; }

  // Appends the whole content of `source`, which is rewritable().
  Result<void> Append(OutputFile& source);

  // Flushes, closes and puts the file in its place. Nothing may be written afterwards.
  Result<void> Commit();

  bool is_terminal() const;
  const std::string& name() const { return name_; }  // for messages

 private:
  OutputFile() = default;

  FileDescriptor fd_;
  std::string name_;
  std::string place_;      // where Commit puts it; empty if written directly
  std::string temporary_;  // what it is called until then
  std::string buffer_;
  bool rewritable_ = false;
};

// What a process that writes files needs before it opens any, once at the start of main: handlers
// that remove a half-written file (signals that are ignored, as under nohup, stay so), SIGPIPE's
// default action, no SIGXFSZ (a file over `ulimit -f` is an error of Write), and standard
// descriptors that are open, so that no file becomes one of them; one that was closed answers reads
// and writes with an error.
void PrepareProcess();

}  // namespace sprat::cli

#endif  // SPRAT_CLI_OUTPUT_FILE_H_
