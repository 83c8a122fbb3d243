// A file mapped read-only into memory.
#ifndef SPRAT_BASE_MAPPED_FILE_H_
#define SPRAT_BASE_MAPPED_FILE_H_

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "sprat/result.h"

namespace sprat {

// The bytes of a regular file, read as they are touched. Movable, unmapped once. The bytes are
// valid as long as this object; a file truncated by someone else meanwhile raises SIGBUS on access,
// as for every mapping, so models are replaced by rename and never written in place.
class MappedFile {
 public:
  // Errors: kNotFound if there is no such file, kIo with the system's reason otherwise (a
  // directory, no permission). An empty file is not an error: bytes() is empty.
  static Result<MappedFile> Open(const std::filesystem::path& path);

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }
  const std::filesystem::path& path() const { return path_; }

  // Tells the kernel that the pages of `range`, a part of bytes(), will not be read again soon, so
  // that they do not count as this process's memory. They can still be read.
  void Release(std::span<const std::byte> range) const;

 private:
  std::span<const std::byte> bytes_;
  std::filesystem::path path_;
};

// The whole content of a small text file (config.json, vocab.txt). Errors: as MappedFile::Open, and
// kCorrupt if it is larger than `limit_bytes`.
Result<std::string> ReadFile(const std::filesystem::path& path, size_t limit_bytes);

}  // namespace sprat

#endif  // SPRAT_BASE_MAPPED_FILE_H_
