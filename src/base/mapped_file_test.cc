#include "base/mapped_file.h"

#include <gtest/gtest.h>

#include <fstream>

namespace sprat {
namespace {

std::filesystem::path Write(const std::string& name, const std::string& content) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / name;
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

TEST(MappedFile, ShowsTheBytesOfTheFile) {
  Result<MappedFile> file = MappedFile::Open(Write("three", "abc"));
  ASSERT_TRUE(file.ok());
  ASSERT_EQ(file.value().bytes().size(), 3u);
  EXPECT_EQ(file.value().bytes()[1], std::byte{'b'});
}

TEST(MappedFile, EmptyFileHasNoBytes) {
  Result<MappedFile> file = MappedFile::Open(Write("none", ""));
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(file.value().bytes().empty());
}

TEST(MappedFile, BytesSurviveAMoveAndARelease) {
  Result<MappedFile> file = MappedFile::Open(Write("big", std::string(100000, 'x')));
  ASSERT_TRUE(file.ok());
  const MappedFile moved = std::move(file).value();
  moved.Release(moved.bytes());
  EXPECT_EQ(moved.bytes()[99999], std::byte{'x'});
}

TEST(MappedFile, ErrorsNameTheFileAndTheReason) {
  Result<MappedFile> missing = MappedFile::Open("/nonexistent/model");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(missing.error().message(), "/nonexistent/model: No such file or directory");
  Result<MappedFile> directory = MappedFile::Open(testing::TempDir());
  ASSERT_FALSE(directory.ok());
  EXPECT_EQ(directory.error().code(), ErrorCode::kIo);
  Result<MappedFile> device = MappedFile::Open("/dev/null");
  ASSERT_FALSE(device.ok());
  EXPECT_EQ(device.error().message(), "/dev/null: not a regular file");
}

TEST(ReadFile, RefusesWhatIsOverTheLimit) {
  const std::filesystem::path path = Write("five", "12345");
  EXPECT_EQ(ReadFile(path, 5).value(), "12345");
  Result<std::string> over = ReadFile(path, 4);
  ASSERT_FALSE(over.ok());
  EXPECT_EQ(over.error().message(), path.string() + ": 5 bytes, expected at most 4");
}

}  // namespace
}  // namespace sprat
