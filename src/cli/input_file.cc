#include "cli/input_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace sprat::cli {

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    Close();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

FileDescriptor::~FileDescriptor() { Close(); }

int FileDescriptor::Close() {
  if (fd_ < 0) return 0;
  return close(std::exchange(fd_, -1)) == 0 ? 0 : errno;
}

Error SystemError(const std::string& name, const std::string& what, int error_number) {
  const ErrorCode code = error_number == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo;
  return Error(code, fmt::format("{}: {}: {}", name, what, std::strerror(error_number)));
}

Result<InputFile> InputFile::Open(const std::string& path) {
  InputFile file;
  if (path == "-") {
    file.name_ = "standard input";
    // A copy, so that closing it leaves descriptor 0 taken: no later file may become it.
    file.fd_ = FileDescriptor(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
  } else {
    file.name_ = path;
    file.fd_ = FileDescriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  }
  if (file.fd_.get() < 0) return SystemError(file.name_, "cannot open", errno);
  struct stat status = {};
  if (fstat(file.fd_.get(), &status) != 0) return SystemError(file.name_, "cannot stat", errno);
  if (S_ISDIR(status.st_mode)) {
    return Error(ErrorCode::kIo, file.name_ + ": a directory; expected a file of texts");
  }
  if (S_ISREG(status.st_mode)) file.size_bytes_ = static_cast<uint64_t>(status.st_size);
  return file;
}

Result<size_t> InputFile::Read(std::span<char> into) {
  while (true) {
    const ssize_t n = read(fd_.get(), into.data(), into.size());
    if (n >= 0) return static_cast<size_t>(n);
    if (errno != EINTR) return SystemError(name_, "cannot read", errno);
  }
}

}  // namespace sprat::cli
