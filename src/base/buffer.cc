#include "base/buffer.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>

namespace sprat {
namespace {

constexpr size_t kCacheLineBytes{64};
constexpr size_t kHugePageBytes{size_t{2} << 20};

size_t RoundUp(size_t n, size_t multiple) { return (n + multiple - 1) / multiple * multiple; }

// Fresh zero pages that start at a huge page; nullptr if there are none. malloc would do, but then
// zeroing would touch every page.
void* MapHugePages(size_t mapped_bytes) {
  const size_t reserved_bytes = mapped_bytes + kHugePageBytes;
  void* reserved = mmap(nullptr, reserved_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return nullptr;
  const auto first = reinterpret_cast<uintptr_t>(reserved);
  const uintptr_t start = RoundUp(first, kHugePageBytes);
  const uintptr_t last = first + reserved_bytes;
  if (start > first) munmap(reserved, start - first);
  if (start + mapped_bytes < last) {
    munmap(reinterpret_cast<void*>(start + mapped_bytes), last - start - mapped_bytes);
  }
  madvise(reinterpret_cast<void*>(start), mapped_bytes, MADV_HUGEPAGE);
  return reinterpret_cast<void*>(start);
}

size_t MappedBytes(size_t size_bytes) { return RoundUp(size_bytes, kHugePageBytes); }

}  // namespace

Result<ByteBuffer> ByteBuffer::Allocate(size_t size_bytes) {
  ByteBuffer buffer;
  if (size_bytes == 0) return buffer;
  void* start = nullptr;
  if (size_bytes <= std::numeric_limits<size_t>::max() - 2 * kHugePageBytes) {
    if (size_bytes >= kHugePageBytes) {
      start = MapHugePages(MappedBytes(size_bytes));
    } else {
      start = std::aligned_alloc(kCacheLineBytes, RoundUp(size_bytes, kCacheLineBytes));
      if (start != nullptr) std::memset(start, 0, size_bytes);
    }
  }
  if (start == nullptr) {
    return Error(ErrorCode::kOutOfMemory,
                 "cannot allocate " + std::to_string(size_bytes) + " bytes");
  }
  buffer.start_ = static_cast<std::byte*>(start);
  buffer.size_bytes_ = size_bytes;
  return buffer;
}

ByteBuffer& ByteBuffer::operator=(ByteBuffer&& other) noexcept {
  std::swap(start_, other.start_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

ByteBuffer::~ByteBuffer() {
  if (size_bytes_ >= kHugePageBytes) {
    munmap(start_, MappedBytes(size_bytes_));
  } else {
    std::free(start_);
  }
}

}  // namespace sprat
