#include "cli/vector_cache.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace sprat::cli {
namespace {

using ::testing::ElementsAre;

constexpr std::chrono::seconds kPatience{60};

class Cache : public ::testing::Test {
 protected:
  Cache() {
    std::string name = (std::filesystem::temp_directory_path() / "sprat_cache_XXXXXX").string();
    folder_ = mkdtemp(name.data());
    path_ = folder_ / "a/b/key.vectors";
  }
  ~Cache() override { std::filesystem::remove_all(folder_); }

  VectorCache Open() const { return {path_, Sha256("key"), 2}; }
  std::string Content() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void Replace(const std::string& content) const {
    std::filesystem::remove(path_);  // the old file may be mapped
    std::ofstream(path_, std::ios::binary) << content;
  }
  // The vector of `text`; empty if there is none.
  static std::vector<float> Find(const VectorCache& cache, std::string_view text) {
    const auto entry = cache.Find(Sha256(text));
    return entry ? std::vector<float>(entry->vector.begin(), entry->vector.end())
                 : std::vector<float>();
  }
  void SaveThree() const {
    VectorCache cache = Open();
    for (const float x : {1.0f, 2.0f, 3.0f}) {
      cache.Add(Sha256("text " + std::to_string(static_cast<int>(x))), std::vector{x, -x}, x == 2);
    }
    ASSERT_TRUE(cache.Save(kPatience).ok());
  }

  std::filesystem::path folder_;
  std::filesystem::path path_;
};

TEST(Sha256, MatchesFips180) {
  const Digest digest = Sha256("abc");  // FIPS 180-4, example B.1
  EXPECT_EQ(digest[0], 0xba);
  EXPECT_EQ(digest[1], 0x78);
  EXPECT_EQ(digest[31], 0xad);
}

TEST_F(Cache, FindsWhatWasAddedBeforeAndAfterSaving) {
  VectorCache cache = Open();
  EXPECT_THAT(Find(cache, "a"), ElementsAre());
  cache.Add(Sha256("a"), std::vector{1.0f, 2.0f}, false);
  EXPECT_THAT(Find(cache, "a"), ElementsAre(1, 2));
  ASSERT_TRUE(cache.Save(kPatience).ok());
  EXPECT_EQ(cache.unsaved(), 0u);
  EXPECT_THAT(Find(cache, "a"), ElementsAre(1, 2));
  EXPECT_THAT(Find(Open(), "a"), ElementsAre(1, 2));
}

TEST_F(Cache, TheFileIsAsDocumented) {
  SaveThree();
  const std::string file = Content();
  ASSERT_EQ(file.size(), 64u + 3 * (48 + 8));
  EXPECT_EQ(file.substr(0, 16), std::string_view("SPRATVC1\x02\0\0\0\0\0\0\0", 16));
  EXPECT_EQ(file.substr(48, 8), std::string_view("\x03\0\0\0\0\0\0\0", 8));
  EXPECT_LT(file.substr(64, 32), file.substr(64 + 56, 32));
  EXPECT_LT(file.substr(64 + 56, 32), file.substr(64 + 112, 32));
}

TEST_F(Cache, KeepsWhetherTheTextWasCut) {
  SaveThree();
  EXPECT_FALSE(Open().Find(Sha256("text 1"))->cut);
  EXPECT_TRUE(Open().Find(Sha256("text 2"))->cut);
}

TEST_F(Cache, AnotherKeyOrWidthFindsNothing) {
  SaveThree();
  EXPECT_THAT(Find(VectorCache(path_, Sha256("other"), 2), "text 1"), ElementsAre());
  EXPECT_THAT(Find(VectorCache(path_, Sha256("key"), 3), "text 1"), ElementsAre());
}

// Each byte of the file in turn is damaged: at most the record that holds it is missing, and no
// wrong vector is ever found. Saving again makes the file whole.
TEST_F(Cache, DamageIsNeverAVector) {
  SaveThree();
  const std::string good = Content();
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x10);
    Replace(bad);
    const VectorCache cache = Open();
    size_t found = 0;
    for (const int n : {1, 2, 3}) {
      const std::vector<float> vector = Find(cache, "text " + std::to_string(n));
      if (vector.empty()) continue;
      ++found;
      EXPECT_THAT(vector, ElementsAre(n, -n)) << "byte " << i;
    }
    EXPECT_EQ(found >= 1, i >= 64) << "byte " << i;
  }
  SaveThree();
  EXPECT_THAT(Find(Open(), "text 1"), ElementsAre(1, -1));
  EXPECT_THAT(Find(Open(), "text 3"), ElementsAre(3, -3));
  EXPECT_EQ(Content().size(), good.size());
}

TEST_F(Cache, ADamagedRecordIsNotWrittenAgain) {
  SaveThree();
  std::string bad = Content();
  bad[64 + 45] ^= 0x10;  // in the first vector
  Replace(bad);
  VectorCache cache = Open();
  cache.Add(Sha256("text 4"), std::vector{4.0f, -4.0f}, false);
  ASSERT_TRUE(cache.Save(kPatience).ok());
  EXPECT_EQ(Content().size(), 64u + 3 * 56);  // two of the old ones and the new one
  EXPECT_THAT(Find(cache, "text 4"), ElementsAre(4, -4));
}

TEST_F(Cache, ATruncatedFileIsEmptyAndRewritten) {
  SaveThree();
  const std::string good = Content();
  for (const size_t size : {size_t{0}, size_t{10}, size_t{63}, size_t{64}, good.size() - 1}) {
    Replace(good.substr(0, size));
    EXPECT_THAT(Find(Open(), "text 1"), ElementsAre()) << size;
  }
  SaveThree();
  EXPECT_EQ(Content().size(), good.size());
}

TEST_F(Cache, ProcessesAddToEachOthersFiles) {
  constexpr int kProcesses = 4;
  constexpr int kRounds = 20;
  for (int p = 0; p < kProcesses; ++p) {
    if (fork() != 0) continue;
    VectorCache cache = Open();
    bool saved = true;
    for (int r = 0; r < kRounds; ++r) {
      const auto x = static_cast<float>(p * kRounds + r);
      cache.Add(Sha256(std::to_string(p) + " " + std::to_string(r)), std::vector{x, x}, false);
      saved = saved && cache.Save(kPatience).ok();
    }
    _exit(saved ? 0 : 1);
  }
  for (int p = 0; p < kProcesses; ++p) {
    int status = -1;
    wait(&status);
    EXPECT_EQ(status, 0);
  }
  const VectorCache cache = Open();
  for (int p = 0; p < kProcesses; ++p) {
    for (int r = 0; r < kRounds; ++r) {
      const int x = p * kRounds + r;
      EXPECT_THAT(Find(cache, std::to_string(p) + " " + std::to_string(r)), ElementsAre(x, x));
    }
  }
}

TEST_F(Cache, ALockThatIsHeldIsWaitedForWithinBounds) {
  SaveThree();
  const int lock = open((path_.string() + ".lock").c_str(), O_RDWR);
  ASSERT_EQ(flock(lock, LOCK_EX), 0);
  VectorCache cache = Open();
  cache.Add(Sha256("text 4"), std::vector{4.0f, -4.0f}, false);
  Result<void> saved = cache.Save(std::chrono::milliseconds(50));
  ASSERT_FALSE(saved.ok());
  EXPECT_EQ(saved.error().code(), ErrorCode::kOverloaded);
  EXPECT_EQ(saved.error().message(),
            path_.string() + ".lock: locked by another process for more than 50 ms");
  EXPECT_EQ(cache.unsaved(), 1u);
  close(lock);
  ASSERT_TRUE(cache.Save(std::chrono::milliseconds(0)).ok());
  EXPECT_THAT(Find(Open(), "text 4"), ElementsAre(4, -4));
}

TEST_F(Cache, WithoutAPathNothingIsKept) {
  VectorCache cache({}, Sha256("key"), 2);
  cache.Add(Sha256("a"), std::vector{1.0f, 2.0f}, false);
  EXPECT_TRUE(cache.Save(kPatience).ok());
  EXPECT_THAT(Find(cache, "a"), ElementsAre(1, 2));
}

TEST_F(Cache, AFolderThatCannotBeMadeIsAnError) {
  std::ofstream(folder_ / "a") << "a file where a folder should be";
  VectorCache cache = Open();
  cache.Add(Sha256("a"), std::vector{1.0f, 2.0f}, false);
  EXPECT_FALSE(cache.Save(kPatience).ok());
  EXPECT_THAT(Find(cache, "a"), ElementsAre(1, 2));
}

}  // namespace
}  // namespace sprat::cli
