#include "tokenizer/double_array.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>

namespace sprat {
namespace {

DoubleArray BuildOrDie(std::vector<DoubleArray::Entry> entries) {
  Result<DoubleArray> built = DoubleArray::Build(entries);
  EXPECT_TRUE(built.ok());
  return std::move(built).value();
}

TEST(DoubleArray, FindsKeysAndNothingElse) {
  const DoubleArray trie = BuildOrDie({{"ab", 7}, {"a", 0}, {"abc", 8388607}, {"\xC3\xA9", 3}});
  EXPECT_EQ(trie.Find("a"), 0u);
  EXPECT_EQ(trie.Find("ab"), 7u);
  EXPECT_EQ(trie.Find("abc"), 8388607u);
  EXPECT_EQ(trie.Find("\xC3\xA9"), 3u);
  for (const std::string_view other : {"", "b", "abcd", "\xC3", "c"}) {
    EXPECT_EQ(trie.Find(other), std::nullopt) << other;
  }
  EXPECT_EQ(trie.Find(std::string_view("a\0", 2)), std::nullopt);
  EXPECT_EQ(trie.Find(std::string_view("\0", 1)), std::nullopt);
}

TEST(DoubleArray, OfEqualKeysTheLastWins) {
  std::vector<DoubleArray::Entry> entries = {{"a", 1}, {"b", 2}, {"a", 3}};
  const Result<DoubleArray> trie = DoubleArray::Build(entries);
  ASSERT_TRUE(trie.ok());
  EXPECT_EQ(trie.value().Find("a"), 3u);
  EXPECT_EQ(entries.size(), 2u);
}

TEST(DoubleArray, RefusesWhatItCannotHold) {
  for (const DoubleArray::Entry& bad :
       {DoubleArray::Entry{"", 1}, DoubleArray::Entry{std::string_view("a\0", 2), 1},
        DoubleArray::Entry{"\xFF", 1}, DoubleArray::Entry{"a", 8388608}}) {
    std::vector<DoubleArray::Entry> entries = {{"b", 2}, bad};
    const Result<DoubleArray> trie = DoubleArray::Build(entries);
    ASSERT_FALSE(trie.ok());
    EXPECT_EQ(trie.error().code(), ErrorCode::kUnsupported);
  }
}

TEST(DoubleArray, RefusesBadBytesWhereverTheyAre) {
  const std::string shared(20, 'k'), longer = shared + "x";
  for (const std::string& prefix : {std::string(), std::string("abcdefg"), shared}) {
    for (const char bad : {'\0', '\xFF'}) {
      for (const std::string_view suffix : {"", "x"}) {
        const std::string key = prefix + bad + std::string(suffix);
        std::vector<DoubleArray::Entry> entries = {
            {"b", 1}, {key, 2}, {shared, 3}, {"abcdefg", 4}, {longer, 5}};
        const Result<DoubleArray> trie = DoubleArray::Build(entries);
        ASSERT_FALSE(trie.ok());
        EXPECT_EQ(trie.error().message(), "token 2 has a byte 0 or 255");
      }
    }
  }
}

// Keys of two letters up to 40 long: equal in their first 8 and 16 bytes, prefixes of each other,
// and given twice.
TEST(DoubleArray, EntriesAreLeftSortedAndDistinct) {
  std::mt19937 random(2);  // NOLINT: a fixed seed is meant
  std::vector<std::string> keys;
  for (size_t i = 0; i < 5000; ++i) {
    std::string key(i % 3 == 0 ? 17 : 0, 'a');
    for (size_t n = 1 + random() % 23; n > 0; --n) key += random() % 4 == 0 ? 'b' : 'a';
    keys.push_back(key);
  }
  std::map<std::string_view, uint32_t> expected;
  std::vector<DoubleArray::Entry> entries;
  for (const std::string& key : keys) {
    const auto value = static_cast<uint32_t>(entries.size());
    entries.push_back({key, value});
    expected[key] = value;  // the last wins
  }
  ASSERT_LT(expected.size(), keys.size());
  const Result<DoubleArray> trie = DoubleArray::Build(entries);
  ASSERT_TRUE(trie.ok());
  ASSERT_EQ(entries.size(), expected.size());
  size_t i = 0;
  for (const auto& [key, value] : expected) {
    ASSERT_EQ(entries[i].key, key);
    ASSERT_EQ(entries[i].value, value);
    ASSERT_EQ(trie.value().Find(key), value);
    ++i;
  }
}

TEST(DoubleArray, EmptyAndVeryDeep) {
  EXPECT_EQ(BuildOrDie({}).Find("a"), std::nullopt);
  const std::string deep(100000, 'x');
  EXPECT_EQ(BuildOrDie({{deep, 5}, {"x", 6}}).Find(deep), 5u);
}

// Against std::map, on keys that share prefixes; every prefix and every neighbour is asked for.
TEST(DoubleArray, AgreesWithAMap) {
  std::mt19937 random(1);  // NOLINT: a fixed seed is meant
  std::map<std::string, uint32_t> expected;
  while (expected.size() < 20000) {
    std::string key;
    for (size_t n = 1 + random() % 8; n > 0; --n)
      key += static_cast<char>(1 + random() % 254 % 40 * 6);
    expected.emplace(key, static_cast<uint32_t>(expected.size()));
  }
  std::vector<DoubleArray::Entry> entries;
  for (const auto& [key, value] : expected) entries.push_back({key, value});
  std::shuffle(entries.begin(), entries.end(), random);
  const DoubleArray trie = BuildOrDie(std::move(entries));
  for (const auto& [key, value] : expected) {
    ASSERT_EQ(trie.Find(key), value);
    for (std::string other = key + "\x01"; !other.empty(); other.pop_back()) {
      const auto known = expected.find(other);
      ASSERT_EQ(trie.Find(other),
                known == expected.end() ? std::nullopt : std::optional(known->second));
    }
  }
  EXPECT_LT(trie.size_bytes(), 4u * 120000 * 4) << "a fifth of the units or more must be used";
}

}  // namespace
}  // namespace sprat
