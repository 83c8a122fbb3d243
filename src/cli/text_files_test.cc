// Which files a search looks into, and what is said of the others.
#include "cli/text_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace sprat::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uid_t kNobody{65534};

class Folders : public ::testing::Test {
 protected:
  Folders() {
    std::string name = (std::filesystem::temp_directory_path() / "sprat_files_XXXXXX").string();
    folder_ = mkdtemp(name.data());
    chmod(folder_.c_str(), 0755);
  }
  ~Folders() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name) {
    const std::filesystem::path path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << name;
    return path.string();
  }
  // What was found, without the folder.
  std::vector<std::string> Find(const std::vector<std::string>& paths) {
    error_.clear();
    unreadable_.clear();
    Result<FoundFiles> found = FindFiles(paths);
    std::vector<std::string> names;
    if (!found.ok()) {
      error_ = found.error().message();
      return names;
    }
    unreadable_ = found.value().unreadable;
    for (const FoundFile& file : found.value().files) {
      names.push_back(file.path.substr(folder_.string().size() + 1));
    }
    return names;
  }

  std::filesystem::path folder_;
  std::vector<std::string> unreadable_;
  std::string error_;
};

TEST_F(Folders, AllInThemButHiddenOnesAndLinksToFolders) {
  for (const char* name : {"b/2.txt", "b/c/3.txt", "b/.git/4.txt", ".5.txt", "1.txt"}) Write(name);
  std::filesystem::create_directory_symlink(folder_, folder_ / "b/up");
  std::filesystem::create_symlink("nowhere", folder_ / "b/dangling");
  EXPECT_THAT(Find({folder_.string()}), ElementsAre("1.txt", "b/2.txt", "b/c/3.txt"));
  EXPECT_THAT(unreadable_, IsEmpty());
}

TEST_F(Folders, AFileIsFoundOnce) {
  const std::string file = Write("b/1.txt");
  Write("b/2.txt");
  EXPECT_THAT(Find({file, (folder_ / "b/../b/1.txt").string(), folder_.string()}),
              ElementsAre("b/1.txt", "b/2.txt"));
}

TEST_F(Folders, OnesThatCannotBeReadAreNamed) {
  Write("a/1.txt");
  Write("b/locked/2.txt");
  Write("c/3.txt");
  const std::string locked = (folder_ / "b/locked").string();
  chmod(locked.c_str(), 0);
  const bool superuser = geteuid() == 0;  // who may read everything
  ASSERT_EQ(superuser ? seteuid(kNobody) : 0, 0);
  const std::vector<std::string> names = Find({folder_.string()});
  const std::vector<std::string> unreadable = unreadable_;
  Find({locked});
  ASSERT_EQ(superuser ? seteuid(0) : 0, 0);
  chmod(locked.c_str(), 0700);
  EXPECT_THAT(names, ElementsAre("a/1.txt", "c/3.txt"));
  EXPECT_THAT(unreadable, ElementsAre(locked + ": cannot open: Permission denied"));
  EXPECT_EQ(error_, locked + ": cannot open: Permission denied");
}

TEST_F(Folders, APathThatDoesNotExistIsAnError) {
  Find({(folder_ / "absent").string()});
  EXPECT_THAT(error_, HasSubstr("absent: cannot open: No such file or directory"));
}

}  // namespace
}  // namespace sprat::cli
