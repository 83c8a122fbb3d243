#include "ngram/row_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <unordered_set>
#include <utility>

#include "base/check.h"

namespace sprat {
namespace {

constexpr size_t kCacheLineBytes{64};
// How far ahead of a lookup its entry of the map is fetched.
constexpr size_t kPrefetchKeys{8};
// A clock that counts to this end does not overflow.
constexpr std::chrono::milliseconds kLongestWait{std::chrono::hours{24 * 365}};

size_t CountDistinct(std::span<const RowKey> keys) {
  return std::unordered_set<RowKey>(keys.begin(), keys.end()).size();
}

// The distinct keys whose slot is `none`.
size_t CountDistinctMissing(std::span<const RowKey> keys, std::span<const uint32_t> slots,
                            uint32_t none) {
  std::unordered_set<RowKey> missing;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (slots[i] == none) missing.insert(keys[i]);
  }
  return missing.size();
}

}  // namespace

uint64_t RowCache::SlotBytes(uint64_t row_bytes) {
  return (row_bytes + kCacheLineBytes - 1) / kCacheLineBytes * kCacheLineBytes;
}

uint64_t RowCache::SizeBytes(uint64_t slots, uint64_t row_bytes) {
  return slots * (SlotBytes(row_bytes) + sizeof(Slot) + sizeof(uint32_t)) +
         MapEntries(slots) * sizeof(Entry);
}

Result<std::unique_ptr<RowCache>> RowCache::Create(const RowCacheOptions& options,
                                                   std::vector<RowPlace> places,
                                                   std::unique_ptr<RowReader> reader) {
  CHECK(options.slots > 0 && options.slots < kNone && options.row_bytes > 0);
  std::unique_ptr<RowCache> cache;
  try {
    cache.reset(new RowCache(options, std::move(places), std::move(reader)));
  } catch (const std::bad_alloc&) {
    return Error(ErrorCode::kOutOfMemory,
                 fmt::format("cannot allocate a row cache of {} slots, {} bytes with its map",
                             options.slots, SizeBytes(options.slots, options.row_bytes)));
  }
  Result<Buffer<std::byte>> arena = Buffer<std::byte>::Allocate(options.slots * cache->stride_);
  if (!arena.ok()) return std::move(arena.error()).In("row cache");
  cache->arena_ = std::move(arena).value();
  return cache;
}

RowCache::RowCache(const RowCacheOptions& options, std::vector<RowPlace> places,
                   std::unique_ptr<RowReader> reader)
    : options_(options),
      places_(std::move(places)),
      reader_(std::move(reader)),
      stride_(SlotBytes(options.row_bytes)),
      slots_(options.slots),
      entries_(MapEntries(options.slots)) {
  options_.slot_wait = std::min(options_.slot_wait, kLongestWait);
  free_.reserve(options.slots);
  for (size_t i = options.slots; i > 0; --i) free_.push_back(static_cast<uint32_t>(i - 1));
}

RowCache::Pins& RowCache::Pins::operator=(Pins&& other) noexcept {
  std::swap(cache_, other.cache_);
  std::swap(slots_, other.slots_);
  std::swap(keys_, other.keys_);
  return *this;
}

void RowCache::Pins::Release() {
  if (cache_ == nullptr) return;
  std::lock_guard lock(cache_->mutex_);
  cache_->UnpinAll(slots_);
  if (cache_->waiting_ > 0) cache_->changed_.notify_all();
  cache_ = nullptr;
  slots_.clear();
}

Result<void> RowCache::Resolve(std::span<const RowKey> keys, Pins& pins) {
  pins.Release();
  const auto deadline = std::chrono::steady_clock::now() + options_.slot_wait;
  std::unique_lock lock(mutex_);
  for (;;) {
    Result<Outcome> outcome = TryResolve(lock, keys, pins.slots_);
    if (!outcome.ok()) return std::move(outcome.error());
    if (outcome.value() == Outcome::kPinned) {
      pins.cache_ = this;
      return {};
    }
    if (outcome.value() == Outcome::kReadByOtherFailed) continue;  // now the row is ours to read
    const size_t distinct = CountDistinct(keys);
    if (distinct > options_.slots) {
      return Error(ErrorCode::kOverloaded,
                   fmt::format("the batch needs {} slots of the row cache, which has {}", distinct,
                               options_.slots));
    }
    // Nothing is held while waiting, so two batches cannot wait for each other.
    ++waiting_;
    const bool timely = changed_.wait_until(lock, deadline) == std::cv_status::no_timeout;
    --waiting_;
    if (!timely) {
      return Error(ErrorCode::kOverloaded,
                   fmt::format("the batch needs {} slots of the row cache, but other batches have "
                               "held {} of its {} for {} ms",
                               distinct, pinned_, options_.slots, options_.slot_wait.count()));
    }
  }
}

Result<void> RowCache::Prefetch(std::span<const RowKey> keys) {
  keys = keys.first(std::min(keys.size(), options_.slots));
  // In parts, so that other batches find slots meanwhile.
  const size_t part = std::max<size_t>(1, options_.slots / 4);
  for (size_t first = 0; first < keys.size(); first += part) {
    Pins pins;
    std::unique_lock lock(mutex_);
    Result<Outcome> outcome =
        TryResolve(lock, keys.subspan(first, std::min(part, keys.size() - first)), pins.slots_);
    if (!outcome.ok()) return std::move(outcome.error());
    if (outcome.value() == Outcome::kNoRoom) return {};
    if (outcome.value() == Outcome::kPinned) UnpinAll(pins.slots_);
    if (waiting_ > 0) changed_.notify_all();
  }
  return {};
}

// One attempt. Whatever but kPinned it returns, it has pinned nothing.
Result<RowCache::Outcome> RowCache::TryResolve(std::unique_lock<std::mutex>& lock,
                                               std::span<const RowKey> keys,
                                               std::vector<uint32_t>& slots) {
  std::vector<uint32_t> loading;  // the slots that this batch must fill
  slots.clear();
  if (!PinAll(keys, slots, loading)) return Outcome::kNoRoom;
  if (!loading.empty()) {
    Result<void> loaded = Load(lock, loading);
    if (!loaded.ok()) {
      Abandon(loading);
      UnpinAll(slots);
      slots.clear();
      ++counters_.failures;
      changed_.notify_all();
      return std::move(loaded.error());
    }
    for (const uint32_t slot : loading) slots_[slot].state = State::kReady;
    changed_.notify_all();
  }
  // Rows that other batches are reading. They wait for no one while they read, so this ends.
  for (const uint32_t slot : slots) {
    if (slots_[slot].state == State::kReady) continue;
    ++waiting_;
    changed_.wait(lock, [&] { return slots_[slot].state != State::kLoading; });
    --waiting_;
    if (slots_[slot].state == State::kFailed) {
      UnpinAll(slots);
      slots.clear();
      return Outcome::kReadByOtherFailed;
    }
  }
  return Outcome::kPinned;
}

// Pins the slot of every key, giving a new one to those that have none. False, with nothing changed
// but marks of use, if there are too few.
bool RowCache::PinAll(std::span<const RowKey> keys, std::vector<uint32_t>& slots,
                      std::vector<uint32_t>& loading) {
  const Counters before = counters_;
  const size_t missing = PinPresent(keys, slots);
  if (missing == 0) return true;
  // What is not pinned now is free or can be evicted.
  const size_t room = options_.slots - pinned_;
  if (missing > room && CountDistinctMissing(keys, slots, kNone) > room) {
    UnpinAll(slots);
    slots.clear();
    counters_ = before;
    return false;
  }
  loading.reserve(missing);
  for (size_t i = 0; i < keys.size(); ++i) {
    if (slots[i] != kNone) continue;
    slots[i] = Find(keys[i]);
    if (slots[i] == kNone) {  // not a repeated key that has its slot by now
      slots[i] = TakeSlot();
      slots_[slots[i]] = {.key = keys[i], .batch = batch_, .state = State::kLoading};
      Insert(keys[i], slots[i]);
      loading.push_back(slots[i]);
      ++counters_.misses;
    }
    Pin(slots[i]);
  }
  return true;
}

// Pins the slots of the keys that have one; slots[i] is that of the i-th, or kNone. Returns how
// many have none, repeated ones counted as often as they come.
size_t RowCache::PinPresent(std::span<const RowKey> keys, std::vector<uint32_t>& slots) {
  ++batch_;
  size_t missing = 0;
  slots.reserve(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    if (i + kPrefetchKeys < keys.size()) {
      __builtin_prefetch(&entries_[Home(keys[i + kPrefetchKeys])]);
    }
    const uint32_t slot = Find(keys[i]);
    slots.push_back(slot);
    if (slot == kNone) {
      ++missing;
      continue;
    }
    if (slots_[slot].batch != batch_) {
      slots_[slot].batch = batch_;
      ++counters_.hits;
    }
    Pin(slot);
  }
  return missing;
}

// Reads the rows of slots that only this batch may write. Without the lock meanwhile.
Result<void> RowCache::Load(std::unique_lock<std::mutex>& lock, std::span<const uint32_t> loading) {
  std::vector<RowRead> rows;
  rows.reserve(loading.size());
  for (const uint32_t slot : loading) {
    const RowKey key = slots_[slot].key;
    const RowPlace& place = places_[key >> 32];
    rows.push_back({.file = place.file,
                    .offset = place.offset + static_cast<uint32_t>(key) * options_.row_bytes,
                    .destination = arena_.begin() + slot * stride_});
  }
  lock.unlock();
  // In the order of the files: neighbours on disk are asked for together.
  std::sort(rows.begin(), rows.end(), [](const RowRead& a, const RowRead& b) {
    return std::pair(a.file, a.offset) < std::pair(b.file, b.offset);
  });
  Result<void> read = reader_->Read(rows);
  lock.lock();
  return read;
}

// Takes slots out of the map that will not be filled; they are free once nobody pins them.
void RowCache::Abandon(std::span<const uint32_t> loading) {
  for (const uint32_t slot : loading) {
    Erase(slots_[slot].key);
    slots_[slot].state = State::kFailed;
  }
}

uint32_t RowCache::TakeSlot() {
  if (!free_.empty()) {
    const uint32_t slot = free_.back();
    free_.pop_back();
    return slot;
  }
  CHECK(pinned_ < options_.slots);
  // Twice around clears every mark; an unpinned slot is then found, since one exists and none that
  // is unpinned is loading or failed.
  for (;;) {
    const auto slot = static_cast<uint32_t>(hand_);
    hand_ = (hand_ + 1) % options_.slots;
    if (slots_[slot].pins > 0) continue;
    if (slots_[slot].used) {
      slots_[slot].used = false;
      continue;
    }
    Erase(slots_[slot].key);
    slots_[slot].state = State::kFree;
    ++counters_.evictions;
    return slot;
  }
}

void RowCache::Pin(uint32_t slot) {
  if (slots_[slot].pins++ == 0) ++pinned_;
  slots_[slot].used = true;
}

void RowCache::Unpin(uint32_t slot) {
  CHECK(slots_[slot].pins > 0);
  if (--slots_[slot].pins > 0) return;
  --pinned_;
  if (slots_[slot].state == State::kFailed) {
    slots_[slot].state = State::kFree;
    free_.push_back(slot);
  }
}

void RowCache::UnpinAll(std::span<const uint32_t> slots) {
  for (const uint32_t slot : slots) {
    if (slot != kNone) Unpin(slot);
  }
}

RowCache::Counters RowCache::counters() const {
  std::lock_guard lock(mutex_);
  return counters_;
}

size_t RowCache::pinned_slots() const {
  std::lock_guard lock(mutex_);
  return pinned_;
}

size_t RowCache::Home(RowKey key) const {
  // Fibonacci hashing (Knuth, volume 3, 6.4): the high bits of key * 2^64 / golden ratio.
  const uint64_t mixed = key * 0x9e3779b97f4a7c15u;
  return static_cast<size_t>(mixed >> 32) & (entries_.size() - 1);
}

uint32_t RowCache::Find(RowKey key) const {
  for (size_t i = Home(key);; i = (i + 1) & (entries_.size() - 1)) {
    if (entries_[i].slot == kNone || entries_[i].key == key) return entries_[i].slot;
  }
}

void RowCache::Insert(RowKey key, uint32_t slot) {
  size_t i = Home(key);
  while (entries_[i].slot != kNone) i = (i + 1) & (entries_.size() - 1);
  entries_[i] = {key, slot};
}

void RowCache::Erase(RowKey key) {
  const size_t mask = entries_.size() - 1;
  size_t hole = Home(key);
  while (entries_[hole].slot == kNone || entries_[hole].key != key) {
    CHECK(entries_[hole].slot != kNone);
    hole = (hole + 1) & mask;
  }
  // Later entries of the run move into the hole if that is not before their home.
  for (size_t i = (hole + 1) & mask; entries_[i].slot != kNone; i = (i + 1) & mask) {
    const size_t distance = (i - Home(entries_[i].key)) & mask;
    if (distance < ((i - hole) & mask)) continue;
    entries_[hole] = entries_[i];
    hole = i;
  }
  entries_[hole].slot = kNone;
}

}  // namespace sprat
