// How many bytes of bodies and answers the server holds at a time, and which requests get them.
#ifndef SPRAT_SERVER_BYTE_BUDGET_H_
#define SPRAT_SERVER_BYTE_BUDGET_H_

#include <cstddef>
#include <mutex>

namespace sprat::server {

// Requests take bytes before they hold them, and are refused if there are none left. A small
// request holds at most kSmallBytes, a large one more. The large ones together get seven eighths of
// the limit: however many there are, they do not keep a small one out. A large request is taken
// whatever it wants if there is no other large one, and a small one if there is none at all, for
// they could never be answered otherwise.
//
// Any thread may call.
class ByteBudget {
 public:
  static constexpr size_t kSmallBytes{32 << 10};

  explicit ByteBudget(size_t limit) : limit_(limit) {}

  // Lets a request that holds `from` bytes hold `to`. False if they are not there: then it still
  // holds `from`. Requires that `from` was granted. Holding less is always granted.
  bool Change(size_t from, size_t to);

  size_t limit() const { return limit_; }
  size_t held() const;

 private:
  size_t LargeLimit() const { return limit_ - limit_ / 8; }
  bool Fits(size_t bytes) const;
  size_t& Class(size_t bytes) { return bytes > kSmallBytes ? large_ : small_; }

  const size_t limit_;
  mutable std::mutex mutex_;
  size_t small_ = 0;  // bytes of small requests; guarded by mutex_, as is large_
  size_t large_ = 0;
};

// The bytes of one request, given back at its end. Movable; what was moved from holds none.
class HeldBytes {
 public:
  explicit HeldBytes(ByteBudget& budget) : budget_(&budget) {}
  HeldBytes(HeldBytes&& other) noexcept;
  HeldBytes& operator=(HeldBytes&& other) noexcept;
  ~HeldBytes() { Resize(0); }

  // False, and nothing changes, if the budget has not so many.
  bool Resize(size_t bytes);
  // Gives back what is beyond `bytes`, unless all of it is small and not worth a lock. Requires
  // bytes <= bytes().
  void Shrink(size_t bytes) {
    if (bytes_ > ByteBudget::kSmallBytes) Resize(bytes);
  }
  size_t bytes() const { return bytes_; }

 private:
  ByteBudget* budget_;
  size_t bytes_ = 0;
};

}  // namespace sprat::server

#endif  // SPRAT_SERVER_BYTE_BUDGET_H_
