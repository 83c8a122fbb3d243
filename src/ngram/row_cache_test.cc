#include "ngram/row_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>

#include "model/model_writer_for_test.h"
#include "ngram/faulty_queue_for_test.h"

namespace sprat {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr size_t kRowBytes{96};
constexpr uint32_t kTables{3};
constexpr uint32_t kRows{500};

uint8_t ByteOf(uint32_t table, uint32_t row, size_t k) {
  return static_cast<uint8_t>(table * 89 + row * 7 + k);
}

// Tables 0 and 1 in one file, 2 in another.
struct TwoFiles {
  std::vector<std::filesystem::path> paths;
  std::vector<RowPlace> places;

  TwoFiles() {
    const std::filesystem::path directory = NewTestDirectory("row_cache");
    std::string contents[2] = {"first", "2nd"};
    for (uint32_t table = 0; table < kTables; ++table) {
      const uint32_t file = table / 2;
      places.push_back({file, contents[file].size()});
      for (uint32_t row = 0; row < kRows; ++row) {
        for (size_t k = 0; k < kRowBytes; ++k) {
          contents[file].push_back(static_cast<char>(ByteOf(table, row, k)));
        }
      }
    }
    for (size_t i = 0; i < 2; ++i) {
      paths.push_back(directory / std::to_string(i));
      WriteTestFile(paths.back(), contents[i]);
    }
  }
};

std::unique_ptr<RowCache> MakeCache(size_t slots, const std::shared_ptr<Faults>& faults = nullptr,
                                    std::chrono::milliseconds slot_wait = {}) {
  static const TwoFiles files;
  RowReaderOptions reading{.row_bytes = kRowBytes};
  if (faults != nullptr) {
    reading.open_queue = [faults](size_t) -> Result<std::unique_ptr<ReadQueue>> {
      return std::unique_ptr<ReadQueue>(std::make_unique<FaultyQueue>(faults));
    };
  }
  Result<std::unique_ptr<RowReader>> reader = RowReader::Open(files.paths, reading);
  EXPECT_TRUE(reader.ok());
  Result<std::unique_ptr<RowCache>> cache =
      RowCache::Create({.slots = slots, .row_bytes = kRowBytes, .slot_wait = slot_wait},
                       files.places, std::move(reader).value());
  EXPECT_TRUE(cache.ok());
  return std::move(cache).value();
}

std::vector<RowKey> Keys(std::initializer_list<uint32_t> rows, uint32_t table = 0) {
  std::vector<RowKey> keys;
  for (const uint32_t row : rows) keys.push_back(MakeRowKey(table, row));
  return keys;
}

// Whether the pinned slots hold the rows of the keys.
bool Holds(const RowCache& cache, std::span<const RowKey> keys, const RowCache::Pins& pins) {
  if (pins.slots().size() != keys.size()) return false;
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto* row = reinterpret_cast<const uint8_t*>(cache.Row(pins.slots()[i]));
    for (size_t k = 0; k < kRowBytes; ++k) {
      const auto table = static_cast<uint32_t>(keys[i] >> 32);
      if (row[k] != ByteOf(table, static_cast<uint32_t>(keys[i]), k)) return false;
    }
  }
  return true;
}

void ExpectResolves(RowCache& cache, std::span<const RowKey> keys) {
  RowCache::Pins pins;
  Result<void> resolved = cache.Resolve(keys, pins);
  ASSERT_TRUE(resolved.ok()) << resolved.error().message();
  EXPECT_TRUE(Holds(cache, keys, pins));
}

TEST(RowCache, ABatchReadsEachMissingRowOnce) {
  const auto cache = MakeCache(8);
  std::vector<RowKey> keys = Keys({7, 9, 7, 7, 499});
  keys.push_back(MakeRowKey(1, 7));
  keys.push_back(MakeRowKey(2, 499));
  ExpectResolves(*cache, keys);
  EXPECT_EQ(cache->counters().misses, 5u);
  EXPECT_EQ(cache->counters().hits, 0u);
  EXPECT_EQ(cache->reader().counters().reads, 5u);
  ExpectResolves(*cache, keys);
  EXPECT_EQ(cache->counters().misses, 5u);
  EXPECT_EQ(cache->counters().hits, 5u);
  EXPECT_EQ(cache->counters().evictions, 0u);
  EXPECT_EQ(cache->reader().counters().reads, 5u);
  EXPECT_EQ(cache->pinned_slots(), 0u);
}

TEST(RowCache, PinnedRowsAreNotEvicted) {
  const auto cache = MakeCache(4);
  const std::vector<RowKey> held = Keys({1, 2});
  RowCache::Pins pins;
  ASSERT_TRUE(cache->Resolve(held, pins).ok());
  for (uint32_t row = 10; row < 100; row += 2) ExpectResolves(*cache, Keys({row, row + 1}));
  EXPECT_TRUE(Holds(*cache, held, pins));
  EXPECT_EQ(cache->pinned_slots(), 2u);
  pins.Release();
  EXPECT_EQ(cache->pinned_slots(), 0u);
  ExpectResolves(*cache, Keys({3, 4, 5, 6}));
}

TEST(RowCache, TheHandPassesOverWhatWasUsedSinceItLastCameBy) {
  const auto cache = MakeCache(3);
  for (const uint32_t row : {1, 2, 3}) ExpectResolves(*cache, Keys({row}));
  ExpectResolves(*cache, Keys({4}));  // clears the marks of 1, 2, 3, then evicts 1
  ExpectResolves(*cache, Keys({2}));  // marks 2 again
  const uint64_t misses = cache->counters().misses;
  ExpectResolves(*cache, Keys({5}));  // passes over 2, evicts 3
  ExpectResolves(*cache, Keys({2}));
  ExpectResolves(*cache, Keys({4}));
  EXPECT_EQ(cache->counters().misses, misses + 1);
  ExpectResolves(*cache, Keys({3}));
  EXPECT_EQ(cache->counters().misses, misses + 2);
}

TEST(RowCache, ABatchLargerThanTheArenaSaysHowLarge) {
  const auto cache = MakeCache(4);
  RowCache::Pins pins;
  Result<void> resolved = cache->Resolve(Keys({1, 2, 3, 4, 5, 5, 1}), pins);
  ASSERT_FALSE(resolved.ok());
  EXPECT_EQ(resolved.error().code(), ErrorCode::kOverloaded);
  EXPECT_EQ(resolved.error().message(), "the batch needs 5 slots of the row cache, which has 4");
  EXPECT_EQ(cache->pinned_slots(), 0u);
  EXPECT_EQ(cache->counters().misses, 0u);
  ExpectResolves(*cache, Keys({1, 2, 3, 4, 4, 1}));
}

TEST(RowCache, ABatchThatCannotBePinnedEvictsNothing) {
  const auto cache = MakeCache(6, nullptr, std::chrono::milliseconds(5));
  ExpectResolves(*cache, Keys({1, 2, 3, 4}));  // two slots are free
  RowCache::Pins held, pins;
  ASSERT_TRUE(cache->Resolve(Keys({1, 2}), held).ok());
  const RowCache::Counters before = cache->counters();
  ASSERT_FALSE(cache->Resolve(Keys({3, 5, 6, 7, 8}), pins).ok());               // for two others
  ASSERT_FALSE(cache->Resolve(Keys({10, 11, 12, 13, 14, 15, 16}), pins).ok());  // for the arena
  EXPECT_EQ(cache->counters().evictions, 0u);
  EXPECT_EQ(cache->counters().misses, before.misses);
  EXPECT_EQ(cache->counters().hits, before.hits);
  EXPECT_EQ(cache->pinned_slots(), 2u);
  held.Release();
  ExpectResolves(*cache, Keys({1, 2, 3, 4}));
  EXPECT_EQ(cache->counters().misses, before.misses);  // all four are still there
  EXPECT_EQ(cache->reader().counters().reads, 4u);
}

// Three rows are missing, named six times, and three slots can be had.
TEST(RowCache, ARepeatedMissingRowNeedsOneSlot) {
  const auto cache = MakeCache(4);
  RowCache::Pins held;
  ASSERT_TRUE(cache->Resolve(Keys({1}), held).ok());
  ExpectResolves(*cache, Keys({1, 5, 5, 6, 7, 6, 7, 1}));
  EXPECT_EQ(cache->counters().misses, 4u);
  EXPECT_EQ(cache->counters().hits, 1u);
}

TEST(RowCache, SizeBytesCountsArenaSlotsAndMap) {
  // 3 slots of 96 bytes up to 128; 24 and 4 bytes a slot; 8 entries of 16.
  EXPECT_EQ(RowCache::SizeBytes(3, 96), 3u * (128 + 24 + 4) + 8 * 16);
}

TEST(RowCache, ABatchWaitsForSlotsAndSaysWhoHeldThem) {
  const auto cache = MakeCache(4, nullptr, std::chrono::milliseconds(5));
  RowCache::Pins held;
  ASSERT_TRUE(cache->Resolve(Keys({1, 2, 3}), held).ok());
  RowCache::Pins pins;
  Result<void> resolved = cache->Resolve(Keys({4, 5}), pins);
  ASSERT_FALSE(resolved.ok());
  EXPECT_EQ(resolved.error().code(), ErrorCode::kOverloaded);
  EXPECT_THAT(resolved.error().message(), HasSubstr("have held 3 of its 4"));
  held.Release();
  ExpectResolves(*cache, Keys({4, 5}));
}

TEST(RowCache, WhoWaitsGetsTheSlotsOnceTheyAreReleased) {
  const auto cache = MakeCache(4, nullptr, std::chrono::milliseconds::max());
  RowCache::Pins held;
  ASSERT_TRUE(cache->Resolve(Keys({1, 2, 3}), held).ok());
  std::atomic<bool> begun{false};
  std::thread other([&] {
    begun = true;
    ExpectResolves(*cache, Keys({4, 5}));
  });
  // Likely to wait by then; a wait that did not hold would be an error at any time.
  while (!begun) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  held.Release();
  other.join();
}

TEST(RowCache, PrefetchedRowsAreHits) {
  const auto cache = MakeCache(8);
  ASSERT_TRUE(cache->Prefetch(Keys({1, 2, 3})).ok());
  EXPECT_EQ(cache->pinned_slots(), 0u);
  EXPECT_EQ(cache->counters().misses, 3u);
  ExpectResolves(*cache, Keys({1, 2, 3}));
  EXPECT_EQ(cache->counters().hits, 3u);
  EXPECT_EQ(cache->counters().misses, 3u);
}

TEST(RowCache, PrefetchGoesAsFarAsThereIsRoom) {
  const auto cache = MakeCache(4);
  ASSERT_TRUE(cache->Prefetch(Keys({1, 2, 3, 4, 5, 6})).ok());
  EXPECT_EQ(cache->counters().misses, 4u);
  RowCache::Pins held;
  ASSERT_TRUE(cache->Resolve(Keys({1, 2, 3, 4}), held).ok());
  ASSERT_TRUE(cache->Prefetch(Keys({7, 8})).ok());
  EXPECT_EQ(cache->counters().evictions, 0u);
}

TEST(RowCache, AFailedReadUndoesTheWholeBatch) {
  const auto faults = std::make_shared<Faults>();
  const auto cache = MakeCache(6, faults);
  ExpectResolves(*cache, Keys({1, 2}));
  faults->alter = [](const ReadRequest&, size_t n, int32_t result) {
    return n == 3 ? -EIO : result;  // the second of three
  };
  RowCache::Pins pins;
  Result<void> resolved = cache->Resolve(Keys({1, 3, 4, 5}), pins);
  ASSERT_FALSE(resolved.ok());
  EXPECT_EQ(resolved.error().code(), ErrorCode::kIo);
  EXPECT_THAT(resolved.error().message(), HasSubstr("Input/output error"));
  EXPECT_TRUE(pins.slots().empty());
  EXPECT_EQ(cache->pinned_slots(), 0u);
  EXPECT_EQ(cache->counters().failures, 1u);
  // All six slots can be had, none of the three rows is there, those from before are.
  const uint64_t misses = cache->counters().misses;
  ExpectResolves(*cache, Keys({1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(cache->counters().misses, misses + 4);
}

// The bytes of resident rows and of cached ones are equal whatever threads, evictions and faults
// do.
TEST(RowCache, ThreadsUnderEvictionAndFaultsSeeTheirRowsAndLoseNoSlot) {
  const auto faults = std::make_shared<Faults>();
  faults->alter = [](const ReadRequest&, size_t n, int32_t result) {
    if (n % 97 == 96) return -EIO;
    if (n % 13 == 12) return -EAGAIN;
    return n % 17 == 16 ? std::min(result, 50) : result;
  };
  const auto cache = MakeCache(64, faults, std::chrono::minutes(5));
  std::atomic<size_t> served{0}, failed{0}, wrong{0};
  std::vector<std::thread> threads;
  for (uint32_t seed = 0; seed < 6; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937 random(seed);
      std::uniform_int_distribution<uint32_t> table(0, kTables - 1), row(0, 79), size(1, 30);
      for (size_t i = 0; i < 300; ++i) {
        std::vector<RowKey> keys(size(random));
        for (RowKey& key : keys) key = MakeRowKey(table(random), row(random));
        if (i % 10 == 9) {
          static_cast<void>(cache->Prefetch(keys).ok());
          continue;
        }
        RowCache::Pins pins;
        if (!cache->Resolve(keys, pins).ok()) {
          ++failed;
          continue;
        }
        ++served;
        std::this_thread::yield();
        if (!Holds(*cache, keys, pins)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(served, failed);
  EXPECT_GT(failed, 0u);
  EXPECT_GT(cache->counters().evictions, 100u);
  EXPECT_EQ(cache->pinned_slots(), 0u);
  faults->alter = nullptr;
  std::vector<RowKey> all;
  for (uint32_t row = 100; row < 164; ++row) all.push_back(MakeRowKey(1, row));
  ExpectResolves(*cache, all);  // every slot is still there
}

TEST(RowCache, ThreadsThatMissTheSameRowReadItOnce) {
  const auto cache = MakeCache(64, nullptr, std::chrono::minutes(5));
  std::vector<RowKey> keys;
  for (uint32_t row = 0; row < 60; ++row) keys.push_back(MakeRowKey(2, row));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 8; ++i) threads.emplace_back([&] { ExpectResolves(*cache, keys); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(cache->reader().counters().reads, 60u);
  EXPECT_EQ(cache->counters().misses, 60u);
  EXPECT_EQ(cache->counters().hits, 7 * 60u);
}

}  // namespace
}  // namespace sprat
