#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

namespace sprat {
namespace {

Error SystemError(const std::filesystem::path& path, int error_number) {
  const ErrorCode code =
      error_number == ENOENT || error_number == ENOTDIR ? ErrorCode::kNotFound : ErrorCode::kIo;
  return Error(code, path.string() + ": " + std::generic_category().message(error_number));
}

// An open file descriptor, closed once.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int fd() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

Result<MappedFile> MappedFile::Open(const std::filesystem::path& path) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.fd() < 0) return SystemError(path, errno);
  struct stat status {};
  if (fstat(file.fd(), &status) != 0) return SystemError(path, errno);
  if (S_ISDIR(status.st_mode)) return SystemError(path, EISDIR);
  if (!S_ISREG(status.st_mode)) {
    return Error(ErrorCode::kIo, path.string() + ": not a regular file");
  }
  MappedFile mapped;
  mapped.path_ = path;
  const auto size = static_cast<size_t>(status.st_size);
  if (size == 0) return mapped;
  void* start = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd(), 0);
  if (start == MAP_FAILED) return SystemError(path, errno);
  mapped.bytes_ = {static_cast<const std::byte*>(start), size};
  return mapped;
}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(path_, other.path_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::Release(std::span<const std::byte> range) const {
  // Only whole pages inside the range, so that neighbours are left alone.
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t first = (reinterpret_cast<uintptr_t>(range.data()) + page - 1) / page * page;
  const uintptr_t last = (reinterpret_cast<uintptr_t>(range.data()) + range.size()) / page * page;
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

Result<std::string> ReadFile(const std::filesystem::path& path, size_t limit_bytes) {
  Result<MappedFile> file = MappedFile::Open(path);
  if (!file.ok()) return std::move(file.error());
  const std::span<const std::byte> bytes = file.value().bytes();
  if (bytes.size() > limit_bytes) {
    return Error(ErrorCode::kCorrupt, path.string() + ": " + std::to_string(bytes.size()) +
                                          " bytes, expected at most " +
                                          std::to_string(limit_bytes));
  }
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace sprat
