#include "server/byte_budget.h"

#include <algorithm>
#include <utility>

namespace sprat::server {

// Whether another request of `bytes` fits beside small_ and large_. A large request that was taken
// although it is beyond the limit counts for what the large ones may have.
bool ByteBudget::Fits(size_t bytes) const {
  if (small_ + large_ == 0) return true;
  const size_t room = limit_ - std::min(limit_, small_ + std::min(large_, LargeLimit()));
  if (bytes <= kSmallBytes) return bytes <= room;
  if (large_ == 0) return true;
  return bytes <= room && large_ < LargeLimit() && bytes <= LargeLimit() - large_;
}

bool ByteBudget::Change(size_t from, size_t to) {
  if (from == to) return true;
  const std::lock_guard<std::mutex> lock(mutex_);
  Class(from) -= from;
  const bool granted = to < from || Fits(to);
  Class(granted ? to : from) += granted ? to : from;
  return granted;
}

size_t ByteBudget::held() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return small_ + large_;
}

HeldBytes::HeldBytes(HeldBytes&& other) noexcept
    : budget_(other.budget_), bytes_(std::exchange(other.bytes_, 0)) {}

HeldBytes& HeldBytes::operator=(HeldBytes&& other) noexcept {
  if (this == &other) return *this;
  Resize(0);
  budget_ = other.budget_;
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

bool HeldBytes::Resize(size_t bytes) {
  if (!budget_->Change(bytes_, bytes)) return false;
  bytes_ = bytes;
  return true;
}

}  // namespace sprat::server
