// A file of input, or standard input.
#ifndef SPRAT_CLI_INPUT_FILE_H_
#define SPRAT_CLI_INPUT_FILE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "sprat/result.h"

namespace sprat::cli {

// An open file descriptor that is closed once. Movable.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept { *this = std::move(other); }
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor();

  int get() const { return fd_; }
  // Closes it now. Returns 0, or the errno that close reported (a full disk may show only here).
  int Close();

 private:
  int fd_ = -1;
};

class InputFile {
 public:
  // Opens `path` for reading; "-" is standard input. Errors: kNotFound, kIo (a directory, no
  // permission), each naming the path.
  static Result<InputFile> Open(const std::string& path);

  // Reads up to into.size() bytes, at least one unless the file is at its end: then 0.
  Result<size_t> Read(std::span<char> into);

  const std::string& name() const { return name_; }                   // for messages
  std::optional<uint64_t> size_bytes() const { return size_bytes_; }  // regular files only

 private:
  FileDescriptor fd_;
  std::string name_;
  std::optional<uint64_t> size_bytes_;
};

// "cannot open", errno's text: kNotFound or kIo with `name` in front.
Error SystemError(const std::string& name, const std::string& what, int error_number);

}  // namespace sprat::cli

#endif  // SPRAT_CLI_INPUT_FILE_H_
