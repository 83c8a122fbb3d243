#include "cli/vector_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "cli/input_file.h"
#include "cli/output_file.h"

namespace sprat::cli {
namespace {

constexpr std::string_view kMagic{"SPRATVC1"};
constexpr size_t kHeaderBytes{64};
constexpr size_t kCheckBytes{8};
constexpr size_t kVectorOffset{40};

std::string_view View(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

template <typename T>
void AppendValue(T value, std::string& out) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

template <typename T>
T ValueAt(std::string_view bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

// Appends the check of what `out` holds.
void AppendCheck(std::string& out) {
  const Digest digest = Sha256(out);
  out += View(digest).substr(0, kCheckBytes);
}

bool CheckFits(std::string_view bytes) {
  const size_t size = bytes.size() - kCheckBytes;
  const Digest digest = Sha256(bytes.substr(0, size));
  return View(digest).substr(0, kCheckBytes) == bytes.substr(size);
}

uint32_t Today() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint32_t>(std::chrono::duration_cast<std::chrono::days>(now).count());
}

// Locks the file open as `fd` for this process alone; closing it unlocks.
Result<void> Lock(int fd, const std::string& path, std::chrono::milliseconds patience) {
  constexpr std::chrono::milliseconds kRetryAfter{20};
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return SystemError(path, "cannot lock", errno);
    if (std::chrono::steady_clock::now() >= deadline) {
      return Error(
          ErrorCode::kOverloaded,
          fmt::format("{}: locked by another process for more than {} ms", path, patience.count()));
    }
    std::this_thread::sleep_for(kRetryAfter);
  }
  return {};
}

uint32_t DayOf(std::string_view record) { return ValueAt<uint32_t>(record, 36); }

}  // namespace

Digest Sha256(std::string_view bytes) {
  Digest digest = {};
  EVP_Digest(bytes.data(), bytes.size(), digest.data(), nullptr, EVP_sha256(), nullptr);
  return digest;
}

FileView FileView::Open(const std::filesystem::path& path) {
  FileView view;
  const FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status = {};
  if (fd.get() < 0 || fstat(fd.get(), &status) != 0 || status.st_size <= 0) return view;
  const auto size = static_cast<size_t>(status.st_size);
  void* start = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (start != MAP_FAILED) view.bytes_ = {static_cast<const char*>(start), size};
  return view;
}

FileView& FileView::operator=(FileView&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

FileView::~FileView() {
  if (!bytes_.empty()) munmap(const_cast<char*>(bytes_.data()), bytes_.size());
}

VectorCache::VectorCache(std::filesystem::path path, const Digest& key, size_t dimensions)
    : path_(std::move(path)), key_(key), dimensions_(dimensions) {
  Load();
}

void VectorCache::Load() {
  if (!path_.empty()) file_ = FileView::Open(path_);
  records_ = Records(file_.bytes());
}

std::string VectorCache::Header(size_t records) const {
  std::string header(kMagic);
  AppendValue(static_cast<uint32_t>(dimensions_), header);
  AppendValue(uint32_t{0}, header);
  header += View(key_);
  AppendValue(uint64_t{records}, header);
  AppendCheck(header);
  return header;
}

std::string_view VectorCache::Records(std::string_view file) const {
  if (file.size() < kHeaderBytes) return {};
  const size_t n = (file.size() - kHeaderBytes) / RecordBytes();
  if (file.size() != kHeaderBytes + n * RecordBytes()) return {};
  if (file.substr(0, kHeaderBytes) != Header(n)) return {};
  return file.substr(kHeaderBytes);
}

std::optional<VectorCache::Entry> VectorCache::Find(const Digest& text) const {
  std::string_view record;
  if (const auto added = added_.find(text); added != added_.end()) {
    record = added->second;
  } else {
    const size_t stride = RecordBytes();
    const size_t n = records_.size() / stride;
    size_t low = 0;
    size_t high = n;
    while (low < high) {
      const size_t middle = low + (high - low) / 2;
      if (records_.substr(middle * stride, text.size()) < View(text)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    if (low == n) return {};
    record = records_.substr(low * stride, stride);
    if (!record.starts_with(View(text)) || !CheckFits(record)) return {};
  }
  const auto* vector = reinterpret_cast<const float*>(record.data() + kVectorOffset);
  return Entry{.vector = {vector, dimensions_}, .cut = (ValueAt<uint32_t>(record, 32) & 1) != 0};
}

void VectorCache::Add(const Digest& text, std::span<const float> vector, bool cut) {
  std::string record(View(text));
  record.reserve(RecordBytes());
  AppendValue(uint32_t{cut}, record);
  AppendValue(Today(), record);
  record.append(reinterpret_cast<const char*>(vector.data()), vector.size_bytes());
  AppendCheck(record);
  added_.insert_or_assign(text, std::move(record));
}

std::vector<std::string_view> VectorCache::Merged(std::string_view file) const {
  std::vector<std::string_view> merged;
  for (const auto& [text, record] : added_) merged.push_back(record);
  for (std::string_view rest = Records(file); !rest.empty(); rest.remove_prefix(RecordBytes())) {
    const std::string_view record = rest.substr(0, RecordBytes());
    if (CheckFits(record)) merged.push_back(record);
  }
  const auto text = [](std::string_view record) { return record.substr(0, sizeof(Digest)); };
  // Stable: of two records of one text the one added now comes first and stays.
  std::stable_sort(merged.begin(), merged.end(), [&](auto a, auto b) { return text(a) < text(b); });
  merged.erase(
      std::unique(merged.begin(), merged.end(), [&](auto a, auto b) { return text(a) == text(b); }),
      merged.end());
  const size_t limit = kMaxFileBytes / RecordBytes();
  if (merged.size() <= limit) return merged;
  std::stable_sort(merged.begin(), merged.end(),
                   [](auto a, auto b) { return DayOf(a) > DayOf(b); });
  merged.resize(limit);
  std::sort(merged.begin(), merged.end());
  return merged;
}

Result<void> VectorCache::Save(std::chrono::milliseconds patience) {
  if (added_.empty() || path_.empty()) return {};
  std::error_code ignored;
  std::filesystem::create_directories(path_.parent_path(), ignored);
  const std::string lock_path = path_.string() + ".lock";
  const FileDescriptor lock(open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (lock.get() < 0) return SystemError(lock_path, "cannot create", errno);
  if (Result<void> locked = Lock(lock.get(), lock_path, patience); !locked.ok()) return locked;
  FileView now = FileView::Open(path_);
  const std::vector<std::string_view> records = Merged(now.bytes());
  Result<OutputFile> output = OutputFile::Create(path_.string());
  if (!output.ok()) return std::move(output.error());
  Result<void> written = output.value().Write(Header(records.size()));
  for (size_t i = 0; i < records.size() && written.ok(); ++i) {
    written = output.value().Write(records[i]);
  }
  if (written.ok()) written = output.value().Commit();
  if (!written.ok()) return written;
  added_.clear();
  Load();
  return {};
}

}  // namespace sprat::cli
