// Vectors that were computed before, kept in a file and found by the hash of their text.
//
// The file, all numbers little-endian:
//
//   0   8  "SPRATVC1"
//   8   4  u32 d, values a vector
//   12  4  zero
//   16 32  key: SHA-256 of everything besides the text that a vector depends on
//   48  8  u64 n, records
//   56  8  the first 8 bytes of the SHA-256 of bytes 0 to 55
//   64     n records, ascending by their first 32 bytes, each of 48 + 4 d bytes:
//          0     32   SHA-256 of the text
//          32     4   u32 flags: bit 0 is set if the text was cut to the model's maximum length
//          36     4   u32 day on which the vector was computed, counted from 1970-01-01
//          40    4 d  f32 vector
//          40+4d  8   the first 8 bytes of the SHA-256 of the record up to here
//
// A file whose header is wrong or whose size does not fit it counts as empty; a record whose check
// does not fit counts as absent. Both go when the file is next written.
#ifndef SPRAT_CLI_VECTOR_CACHE_H_
#define SPRAT_CLI_VECTOR_CACHE_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "sprat/result.h"

namespace sprat::cli {

using Digest = std::array<unsigned char, 32>;  // SHA-256

Digest Sha256(std::string_view bytes);

// A file's bytes as they were when it was opened: later versions replace the file by rename.
class FileView {
 public:
  // Empty if there is no such file or it cannot be read.
  static FileView Open(const std::filesystem::path& path);

  FileView() = default;
  FileView(FileView&& other) noexcept { *this = std::move(other); }
  FileView& operator=(FileView&& other) noexcept;
  ~FileView();

  std::string_view bytes() const { return bytes_; }

 private:
  std::string_view bytes_;
};

// One file of vectors of one key. Several processes may use the file at once: each reads the state
// it found, and Save adds to what the file holds by then.
class VectorCache {
 public:
  struct Entry {
    std::span<const float> vector;  // valid until the next Add or Save
    bool cut = false;               // the text was longer than the model's maximum length
  };

  // At most this much is kept in a file; the vectors computed longest ago go first.
  static constexpr size_t kMaxFileBytes{size_t{1} << 30};

  // `path`: the file, which need not exist. An empty path: nothing is read or saved.
  VectorCache(std::filesystem::path path, const Digest& key, size_t dimensions);

  std::optional<Entry> Find(const Digest& text) const;

  // Keeps a vector of `dimensions` values.
  void Add(const Digest& text, std::span<const float> vector, bool cut);

  // Writes what was added to the file: under a lock beside it (PATH.lock), merged with what other
  // processes have written meanwhile, in a new file that replaces the old one. Makes the folders
  // that are missing. Errors: kIo; kOverloaded if another process has held the lock for all of
  // `patience`. After an error the entries stay.
  Result<void> Save(std::chrono::milliseconds patience);

  size_t unsaved() const { return added_.size(); }

 private:
  size_t RecordBytes() const { return 48 + 4 * dimensions_; }
  void Load();
  // The records of a file; empty if its header does not belong to this cache.
  std::string_view Records(std::string_view file) const;
  std::string Header(size_t records) const;
  // The records of `file` and of added_, merged and bounded.
  std::vector<std::string_view> Merged(std::string_view file) const;

  std::filesystem::path path_;
  Digest key_;
  size_t dimensions_;
  FileView file_;
  std::string_view records_;             // of file_
  std::map<Digest, std::string> added_;  // whole records
};

}  // namespace sprat::cli

#endif  // SPRAT_CLI_VECTOR_CACHE_H_
