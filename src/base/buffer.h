// Owned, aligned memory for weights and activations.
#ifndef SPRAT_BASE_BUFFER_H_
#define SPRAT_BASE_BUFFER_H_

#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>

#include "sprat/result.h"

namespace sprat {

// `size_bytes` bytes of zeroed memory, aligned to 64 bytes; from 2 MB on it is aligned to 2 MB and
// the kernel is asked for huge pages (madvise MADV_HUGEPAGE; a refusal is not an error), and pages
// cost memory only once they are touched. Movable, freed once.
class ByteBuffer {
 public:
  // Fails with kOutOfMemory, naming the size.
  static Result<ByteBuffer> Allocate(size_t size_bytes);

  ByteBuffer() = default;
  ByteBuffer(ByteBuffer&& other) noexcept { *this = std::move(other); }
  ByteBuffer& operator=(ByteBuffer&& other) noexcept;
  ~ByteBuffer();

  std::byte* begin() const { return start_; }
  size_t size_bytes() const { return size_bytes_; }

 private:
  std::byte* start_ = nullptr;
  size_t size_bytes_ = 0;
};

// An aligned array of n plain elements, zeroed. See ByteBuffer.
template <typename T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  static Result<Buffer> Allocate(size_t n) {
    if (n > static_cast<size_t>(-1) / sizeof(T)) {
      return Error(ErrorCode::kOutOfMemory, "buffer size overflows");
    }
    Result<ByteBuffer> bytes = ByteBuffer::Allocate(n * sizeof(T));
    if (!bytes.ok()) return std::move(bytes.error());
    Buffer buffer;
    buffer.bytes_ = std::move(bytes).value();
    buffer.size_ = n;
    return buffer;
  }

  T* begin() const { return reinterpret_cast<T*>(bytes_.begin()); }
  T* end() const { return begin() + size_; }
  size_t size() const { return size_; }
  T& operator[](size_t i) const { return begin()[i]; }
  std::span<T> span() const { return {begin(), size_}; }

 private:
  ByteBuffer bytes_;
  size_t size_ = 0;
};

}  // namespace sprat

#endif  // SPRAT_BASE_BUFFER_H_
