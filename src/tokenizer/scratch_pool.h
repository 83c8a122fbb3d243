// Scratch memory that threads borrow, so that no call allocates and no two share.
#ifndef SPRAT_TOKENIZER_SCRATCH_POOL_H_
#define SPRAT_TOKENIZER_SCRATCH_POOL_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

namespace sprat {

// Keeps up to kSlots idle objects of type T. Any thread may borrow at any time, without a lock.
template <typename T>
class ScratchPool {
 public:
  // Goes back to the pool when it ends.
  class Lease {
   public:
    Lease(ScratchPool& pool, std::unique_ptr<T> object) : pool_(pool), object_(std::move(object)) {}
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    ~Lease() { pool_.Return(std::move(object_)); }
    T& operator*() const { return *object_; }

   private:
    ScratchPool& pool_;
    std::unique_ptr<T> object_;
  };

  ScratchPool() = default;
  ScratchPool(const ScratchPool&) = delete;
  ScratchPool& operator=(const ScratchPool&) = delete;
  ~ScratchPool() {
    for (auto& slot : slots_) delete slot.load();
  }

  // An idle object, or a new one if none is idle.
  Lease Borrow() {
    for (auto& slot : slots_) {
      if (slot.load(std::memory_order_relaxed) == nullptr) continue;
      std::unique_ptr<T> object(slot.exchange(nullptr, std::memory_order_acquire));
      if (object != nullptr) return Lease(*this, std::move(object));
    }
    return Lease(*this, std::make_unique<T>());
  }

 private:
  static constexpr size_t kSlots{64};

  void Return(std::unique_ptr<T> object) {
    for (auto& slot : slots_) {
      T* idle = nullptr;
      if (slot.load(std::memory_order_relaxed) == nullptr &&
          slot.compare_exchange_strong(idle, object.get(), std::memory_order_release,
                                       std::memory_order_relaxed)) {
        static_cast<void>(object.release());
        return;
      }
    }
  }

  std::array<std::atomic<T*>, kSlots> slots_ = {};
};

}  // namespace sprat

#endif  // SPRAT_TOKENIZER_SCRATCH_POOL_H_
