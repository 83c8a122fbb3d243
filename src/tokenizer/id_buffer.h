// A growing array of token ids that can be written past its end before it is lengthened.
#ifndef SPRAT_TOKENIZER_ID_BUFFER_H_
#define SPRAT_TOKENIZER_ID_BUFFER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

namespace sprat {

// Like std::vector<uint32_t>, but what is reserved may be written (End()) and then counted
// (Advance()), without being cleared first. Keeps its memory when emptied.
class IdBuffer {
 public:
  void Append(uint32_t id) {
    if (size_ == capacity_) Reserve(1);
    ids_[size_++] = id;
  }
  void Append(std::span<const uint32_t> ids) {
    Reserve(ids.size());
    std::copy(ids.begin(), ids.end(), End());
    size_ += ids.size();
  }
  // Makes room for n ids at End().
  void Reserve(size_t n) {
    if (capacity_ - size_ < n) Grow(n);
  }
  uint32_t* End() { return ids_.get() + size_; }
  void Advance(size_t n) { size_ += n; }        // n at most what is reserved
  void Truncate(size_t size) { size_ = size; }  // size at most size()
  void clear() { size_ = 0; }

  size_t size() const { return size_; }
  std::span<const uint32_t> ids() const { return {ids_.get(), size_}; }
  uint32_t operator[](size_t i) const { return ids_[i]; }

 private:
  void Grow(size_t n) {
    const size_t capacity = std::max(size_ + n, 2 * capacity_);
    auto grown = std::make_unique_for_overwrite<uint32_t[]>(capacity);
    if (size_ > 0) std::memcpy(grown.get(), ids_.get(), size_ * sizeof(uint32_t));
    ids_ = std::move(grown);
    capacity_ = capacity;
  }

  std::unique_ptr<uint32_t[]> ids_;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace sprat

#endif  // SPRAT_TOKENIZER_ID_BUFFER_H_
