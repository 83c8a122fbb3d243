// Recently used table rows in memory, the rest on disk.
#ifndef SPRAT_NGRAM_ROW_CACHE_H_
#define SPRAT_NGRAM_ROW_CACHE_H_

#include <bit>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "ngram/row_reader.h"
#include "sprat/result.h"

namespace sprat {

// A row of a table: table * 2^32 + row.
using RowKey = uint64_t;
constexpr RowKey MakeRowKey(uint32_t table, uint32_t row) { return RowKey{table} << 32 | row; }

// Where a table's rows are: row i at offset + i * row_bytes of a file of the reader.
struct RowPlace {
  uint32_t file = 0;
  uint64_t offset = 0;
};

struct RowCacheOptions {
  size_t slots = 0;
  size_t row_bytes = 0;
  std::chrono::milliseconds slot_wait{10000};  // a year at most
};

// One arena of slots of one row each for all tables, and a map from key to slot.
//
// A slot is free, loading or ready. A batch pins the slots of its rows, so that nobody evicts them
// while they are read; eviction is CLOCK (Corbato 1968): a hand passes over the slots, clears the
// mark of those used since it last came by, and takes the first that is unmarked and unpinned.
//
// Threads: any may call any method at any time. Batches that miss the same row read it once: the
// others wait for the one that reads.
class RowCache {
 public:
  // The bytes of a slot of the arena: a row from one cache line to the next.
  static uint64_t SlotBytes(uint64_t row_bytes);
  // The memory of a cache when all its slots are in use: arena, slots and map.
  static uint64_t SizeBytes(uint64_t slots, uint64_t row_bytes);

  // `places` by table; `reader` must read rows of options.row_bytes. Errors: kOutOfMemory.
  static Result<std::unique_ptr<RowCache>> Create(const RowCacheOptions& options,
                                                  std::vector<RowPlace> places,
                                                  std::unique_ptr<RowReader> reader);

  // The slots of a batch, pinned as long as this object: it must outlive whatever reads the rows,
  // on a device until that has finished and not only begun. Movable; the cache must outlive it.
  class Pins {
   public:
    Pins() = default;
    Pins(Pins&& other) noexcept { *this = std::move(other); }
    Pins& operator=(Pins&& other) noexcept;
    ~Pins() { Release(); }

    // slots()[i] holds the row of the batch's i-th key.
    std::span<const uint32_t> slots() const { return slots_; }
    void Release();

    // Memory that whoever makes the keys may use for them.
    std::vector<RowKey>& keys() { return keys_; }

   private:
    friend class RowCache;
    RowCache* cache_ = nullptr;
    std::vector<RowKey> keys_;
    std::vector<uint32_t> slots_;
  };

  // Pins the rows of `keys` (in any order, repeated or not), reading those that are missing
  // together. All or nothing: after an error no row is pinned, none of the rows that this batch was
  // to read is in the cache, and the cache is as usable as before.
  //   pins: released first; its memory is reused.
  // Errors: kIo (RowReader::Read); kOverloaded if the batch has more distinct rows than there are
  // slots, saying how many, or if other batches held too many for longer than slot_wait.
  // For want of slots nothing is evicted in vain: the rows that are there stay.
  Result<void> Resolve(std::span<const RowKey> keys, Pins& pins);

  // Reads the rows of `keys` that are missing, without pinning any. Stops early, and that is no
  // error, once it has passed as many keys as there are slots or other batches hold the slots.
  Result<void> Prefetch(std::span<const RowKey> keys);

  // Where all rows lie, for whoever makes this memory known to a device. Only rows in pinned slots
  // may be read, and nothing written.
  std::span<std::byte> arena() const { return arena_.span(); }

  // The row in a pinned slot.
  const std::byte* Row(uint32_t slot) const { return arena_.begin() + slot * stride_; }

  struct Counters {
    uint64_t hits = 0;       // distinct rows of a batch that were there or on their way
    uint64_t misses = 0;     // distinct rows of a batch that it read
    uint64_t evictions = 0;  // rows that made room for another
    uint64_t failures = 0;   // batches undone by a failed read
  };
  Counters counters() const;
  const RowReader& reader() const { return *reader_; }
  size_t slots() const { return options_.slots; }
  // Slots that some batch holds at this moment.
  size_t pinned_slots() const;

 private:
  enum class State : uint8_t { kFree, kLoading, kReady, kFailed };
  struct Slot {
    RowKey key = 0;
    uint32_t pins = 0;
    uint32_t batch = 0;  // the last one that asked for it, to tell its repeated keys
    State state = State::kFree;
    bool used = false;  // since the hand last came by
  };
  enum class Outcome { kPinned, kNoRoom, kReadByOtherFailed };

  RowCache(const RowCacheOptions& options, std::vector<RowPlace> places,
           std::unique_ptr<RowReader> reader);

  // All of these with mutex_ held.
  Result<Outcome> TryResolve(std::unique_lock<std::mutex>& lock, std::span<const RowKey> keys,
                             std::vector<uint32_t>& slots);
  bool PinAll(std::span<const RowKey> keys, std::vector<uint32_t>& slots,
              std::vector<uint32_t>& loading);
  size_t PinPresent(std::span<const RowKey> keys, std::vector<uint32_t>& slots);
  uint32_t TakeSlot();
  void Pin(uint32_t slot);
  void Unpin(uint32_t slot);
  void UnpinAll(std::span<const uint32_t> slots);
  void Abandon(std::span<const uint32_t> loading);
  Result<void> Load(std::unique_lock<std::mutex>& lock, std::span<const uint32_t> loading);

  // The map: open addressing with linear probing (Knuth, volume 3, 6.4, algorithms L and R).
  struct Entry {
    RowKey key = 0;
    uint32_t slot = kNone;
  };
  static constexpr uint32_t kNone{UINT32_MAX};
  size_t Home(RowKey key) const;
  uint32_t Find(RowKey key) const;
  void Insert(RowKey key, uint32_t slot);
  void Erase(RowKey key);

  static constexpr size_t MapEntries(uint64_t slots) { return std::bit_ceil(2 * slots); }

  RowCacheOptions options_;
  std::vector<RowPlace> places_;
  std::unique_ptr<RowReader> reader_;
  Buffer<std::byte> arena_;
  size_t stride_ = 0;  // bytes from slot to slot

  mutable std::mutex mutex_;         // guards all below
  std::condition_variable changed_;  // a row ended loading, or a slot lost its last pin
  std::vector<Slot> slots_;
  std::vector<Entry> entries_;  // a power of two, at most half full
  std::vector<uint32_t> free_;
  size_t hand_ = 0;
  size_t pinned_ = 0;
  size_t waiting_ = 0;  // threads in changed_
  uint32_t batch_ = 0;
  Counters counters_;
};

}  // namespace sprat

#endif  // SPRAT_NGRAM_ROW_CACHE_H_
