#include "cli/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

namespace sprat::cli {
namespace {

constexpr size_t kBufferBytes{64 << 10};
constexpr std::array kFatalSignals{SIGINT, SIGTERM, SIGHUP};

// The one half-written file of the process, for the signal handler; empty if there is none.
std::array<char, PATH_MAX> half_written = {};

void RemoveHalfWritten(int signal_number) {
  if (half_written[0] != '\0') unlink(half_written.data());
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

// Sets half_written while no signal can see it half set.
void Remember(const std::string& path) {
  sigset_t fatal, before;
  sigemptyset(&fatal);
  for (const int s : kFatalSignals) sigaddset(&fatal, s);
  pthread_sigmask(SIG_BLOCK, &fatal, &before);
  half_written[path.copy(half_written.data(), half_written.size() - 1)] = '\0';
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

mode_t UsualMode() {
  const mode_t mask = umask(0);
  umask(mask);
  return 0666 & ~mask;
}

// Where `path` leads through symbolic links, whether there is a file or not: the link stays and
// what it points to is replaced or made.
Result<std::string> LinkTarget(const std::string& path) {
  constexpr int kMaxLinks{40};  // as Linux has it (path_resolution(7))
  std::filesystem::path place = path;
  std::error_code fault;
  for (int links = 0; std::filesystem::is_symlink(place, fault); ++links) {
    if (links == kMaxLinks) return SystemError(path, "cannot follow", ELOOP);
    const std::filesystem::path target = std::filesystem::read_symlink(place, fault);
    if (fault) return SystemError(path, "cannot follow", fault.value());
    place = place.parent_path() / target;  // an absolute target stands for itself
  }
  return place.string();
}

}  // namespace

void PrepareProcess() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) >= 0) continue;
    // open takes the lowest free number, which is fd. The wrong direction, so that use fails.
    open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
  signal(SIGPIPE, SIG_DFL);
  signal(SIGXFSZ, SIG_IGN);  // over the limit of a file's size write fails with EFBIG instead
  for (const int s : kFatalSignals) {
    struct sigaction action = {};
    sigaction(s, nullptr, &action);
    if (action.sa_handler == SIG_IGN) continue;
    action.sa_handler = RemoveHalfWritten;
    sigaction(s, &action, nullptr);
  }
}

Result<OutputFile> OutputFile::Create(const std::optional<std::string>& path) {
  OutputFile file;
  if (!path || *path == "-") {
    file.name_ = "standard output";
    file.fd_ = FileDescriptor(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
    if (file.fd_.get() < 0) return SystemError(file.name_, "cannot write", errno);
    return file;
  }
  file.name_ = *path;
  struct stat status = {};
  const bool exists = stat(path->c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) {
    return Error(ErrorCode::kIo, *path + ": a directory; expected a file to write");
  }
  if (exists && !S_ISREG(status.st_mode)) {
    file.fd_ = FileDescriptor(open(path->c_str(), O_WRONLY | O_CLOEXEC));
    if (file.fd_.get() < 0) return SystemError(*path, "cannot open for writing", errno);
    return file;
  }
  Result<std::string> target = LinkTarget(*path);
  if (!target.ok()) return std::move(target.error());
  file.place_ = std::move(target).value();
  if (exists && access(file.place_.c_str(), W_OK) != 0) {
    return SystemError(*path, "cannot write", errno);
  }
  // The superuser may write to it, but whoever protected it meant it to stay.
  if (exists && (status.st_mode & 0222) == 0) {
    return Error(ErrorCode::kIo, fmt::format("{}: write-protected (mode {:04o}); expected a file "
                                             "that may be replaced",
                                             *path, status.st_mode & 07777));
  }
  std::string temporary = file.place_ + ".XXXXXX";
  file.fd_ = FileDescriptor(mkostemp(temporary.data(), O_CLOEXEC));
  if (file.fd_.get() < 0) return SystemError(*path, "cannot create a file beside it", errno);
  file.temporary_ = std::move(temporary);
  Remember(file.temporary_);
  fchmod(file.fd_.get(), exists ? status.st_mode & 07777 : UsualMode());
  file.rewritable_ = true;
  return file;
}

Result<OutputFile> OutputFile::Temporary() {
  const char* directory = std::getenv("TMPDIR");
  OutputFile file;
  file.name_ = fmt::format("{}/sprat.XXXXXX", directory != nullptr ? directory : "/tmp");
  file.fd_ = FileDescriptor(mkostemp(file.name_.data(), O_CLOEXEC));
  if (file.fd_.get() < 0) return SystemError(file.name_, "cannot create a temporary file", errno);
  unlink(file.name_.c_str());
  file.rewritable_ = true;
  return file;
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : fd_(std::move(other.fd_)),
      name_(std::move(other.name_)),
      place_(std::move(other.place_)),
      temporary_(std::exchange(other.temporary_, {})),
      buffer_(std::move(other.buffer_)),
      rewritable_(other.rewritable_) {}

OutputFile::~OutputFile() {
  if (temporary_.empty()) return;
  unlink(temporary_.c_str());
  Remember({});
}

Result<void> OutputFile::Write(std::string_view bytes) {
  buffer_ += bytes;
  if (buffer_.size() < kBufferBytes) return {};
  return Flush();
}

Result<void> OutputFile::Flush() {
  std::string_view rest = buffer_;
  while (!rest.empty()) {
    const ssize_t n = write(fd_.get(), rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return SystemError(name_, "cannot write", errno);
    rest.remove_prefix(static_cast<size_t>(n));
  }
  buffer_.clear();
  return {};
}

Result<void> OutputFile::RewriteStart(std::string_view bytes) {
  if (Result<void> flushed = Flush(); !flushed.ok()) return flushed;
  const ssize_t n = pwrite(fd_.get(), bytes.data(), bytes.size(), 0);
  if (n < 0) return SystemError(name_, "cannot write", errno);
  if (static_cast<size_t>(n) < bytes.size()) return SystemError(name_, "cannot write", ENOSPC);
  return {};
}

Result<void> OutputFile::Append(OutputFile& source) {
  if (Result<void> flushed = source.Flush(); !flushed.ok()) return flushed;
  std::string block(kBufferBytes, '\0');
  off_t at = 0;
  while (true) {
    const ssize_t n = pread(source.fd_.get(), block.data(), block.size(), at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return SystemError(source.name_, "cannot read", errno);
    if (n == 0) return {};
    at += n;
    Result<void> written = Write({block.data(), static_cast<size_t>(n)});
    if (!written.ok()) return written;
  }
}

Result<void> OutputFile::Commit() {
  if (Result<void> flushed = Flush(); !flushed.ok()) return flushed;
  if (const int fault = fd_.Close(); fault != 0) return SystemError(name_, "cannot write", fault);
  if (temporary_.empty()) return {};
  if (std::rename(temporary_.c_str(), place_.c_str()) != 0) {
    return SystemError(name_, "cannot rename " + temporary_ + " to it", errno);
  }
  temporary_.clear();
  Remember({});
  return {};
}

bool OutputFile::is_terminal() const { return isatty(fd_.get()) != 0; }

}  // namespace sprat::cli
