// Files that appear whole or not at all, and the vectors in them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <utility>

#include "cli/npy.h"
#include "cli/output_file.h"
#include "cli/vector_writer.h"

namespace sprat::cli {
namespace {

using ::testing::HasSubstr;

class Output : public ::testing::Test {
 protected:
  Output() {
    std::string name = (std::filesystem::temp_directory_path() / "sprat_output_XXXXXX").string();
    folder_ = mkdtemp(name.data());
    path_ = (folder_ / "out").string();
  }
  ~Output() override { std::filesystem::remove_all(folder_); }

  static std::string Content(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  size_t Entries() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }
  // What a writer of this format makes of two rows.
  std::string Written(VectorFormat format) {
    Result<OutputFile> output = OutputFile::Create(path_);
    VectorWriter writer(output.value(), format);
    EXPECT_TRUE(writer.Add(TwoRows()).ok());
    EXPECT_TRUE(writer.Finish().ok());
    EXPECT_TRUE(output.value().Commit().ok());
    return Content(path_);
  }
  static Embeddings TwoRows() {
    return {.values = {0.5f, -1, 2, 0.1f}, .dimensions = 2, .tokens = {3, 4}, .truncated = {0, 1}};
  }

  std::filesystem::path folder_;
  std::string path_;
};

TEST_F(Output, AppearsWithCommit) {
  Result<OutputFile> output = OutputFile::Create(path_);
  ASSERT_TRUE(output.ok());
  ASSERT_TRUE(output.value().Write("abc").ok());
  EXPECT_FALSE(std::filesystem::exists(path_));
  ASSERT_TRUE(output.value().Commit().ok());
  EXPECT_EQ(Content(path_), "abc");
  EXPECT_EQ(Entries(), 1u);
}

TEST_F(Output, WithoutCommitWhatWasThereStays) {
  std::ofstream(path_) << "before";
  {
    Result<OutputFile> output = OutputFile::Create(path_);
    ASSERT_TRUE(output.value().Write(std::string(1 << 20, 'x')).ok());
    EXPECT_EQ(Entries(), 2u);
  }
  EXPECT_EQ(Content(path_), "before");
  EXPECT_EQ(Entries(), 1u);
}

TEST_F(Output, SignalsRemoveTheHalfWrittenFile) {
  for (const int signal_number : {SIGINT, SIGTERM, SIGHUP}) {
    const pid_t child = fork();
    if (child == 0) {
      PrepareProcess();
      Result<OutputFile> output = OutputFile::Create(path_);
      if (!output.value().Write("x").ok() || !output.value().Flush().ok()) _exit(1);
      raise(signal_number);
      _exit(2);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal_number);
    EXPECT_EQ(Entries(), 0u);
  }
}

TEST_F(Output, ReplacesTheTargetOfALinkAndKeepsItsMode) {
  std::ofstream(folder_ / "target") << "before";
  chmod((folder_ / "target").c_str(), 0600);
  std::filesystem::create_symlink("target", path_);
  Result<OutputFile> output = OutputFile::Create(path_);
  ASSERT_TRUE(output.value().Write("after").ok());
  ASSERT_TRUE(output.value().Commit().ok());
  EXPECT_TRUE(std::filesystem::is_symlink(path_));
  EXPECT_EQ(Content((folder_ / "target").string()), "after");
  struct stat status = {};
  stat(path_.c_str(), &status);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(Output, MakesTheTargetOfALinkThatLeadsToNothingYet) {
  std::filesystem::create_directory(folder_ / "elsewhere");
  std::filesystem::create_symlink("elsewhere/between", path_);
  std::filesystem::create_symlink(folder_ / "elsewhere/target", folder_ / "elsewhere/between");
  Result<OutputFile> output = OutputFile::Create(path_);
  ASSERT_TRUE(output.ok()) << output.error().message();
  ASSERT_TRUE(output.value().Write("x").ok());
  ASSERT_TRUE(output.value().Commit().ok());
  EXPECT_TRUE(std::filesystem::is_symlink(path_));
  EXPECT_EQ(Content((folder_ / "elsewhere/target").string()), "x");
  std::filesystem::create_symlink("circle", folder_ / "circle");
  Result<OutputFile> circle = OutputFile::Create((folder_ / "circle").string());
  ASSERT_FALSE(circle.ok());
  EXPECT_THAT(circle.error().message(), HasSubstr("circle: cannot follow: Too many levels"));
  EXPECT_TRUE(std::filesystem::is_symlink(folder_ / "circle"));
}

TEST_F(Output, AWriteProtectedFileStays) {
  std::ofstream(path_) << "before";
  chmod(path_.c_str(), 0400);
  Result<OutputFile> output = OutputFile::Create(path_);
  ASSERT_FALSE(output.ok());
  // The superuser is told of the mode, everybody else what the system says.
  EXPECT_THAT(output.error().message(),
              geteuid() == 0 ? HasSubstr("out: write-protected (mode 0400); expected a file that")
                             : HasSubstr("out: cannot write: Permission denied"));
  EXPECT_EQ(Content(path_), "before");
  EXPECT_EQ(Entries(), 1u);
}

TEST_F(Output, OverTheLimitOfAFilesSizeIsAnError) {
  const pid_t child = fork();
  if (child == 0) {
    PrepareProcess();
    const struct rlimit limit = {.rlim_cur = 1 << 16, .rlim_max = 1 << 16};
    setrlimit(RLIMIT_FSIZE, &limit);
    std::string message;
    {
      Result<OutputFile> output = OutputFile::Create(path_);
      Result<void> written = output.value().Write(std::string(1 << 20, 'x'));
      if (!written.ok()) message = written.error().message();
    }
    _exit(message == path_ + ": cannot write: File too large" ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(Entries(), 0u);
}

TEST_F(Output, FaultsNameTheFile) {
  Result<OutputFile> in_nothing = OutputFile::Create("/nonexistent/out");
  ASSERT_FALSE(in_nothing.ok());
  EXPECT_THAT(in_nothing.error().message(), HasSubstr("/nonexistent/out: cannot create"));
  Result<OutputFile> folder = OutputFile::Create(folder_.string());
  ASSERT_FALSE(folder.ok());
  EXPECT_THAT(folder.error().message(), HasSubstr(": a directory; expected a file to write"));
  Result<OutputFile> full = OutputFile::Create("/dev/full");
  ASSERT_TRUE(full.value().Write("x").ok());
  Result<void> committed = full.value().Commit();
  ASSERT_FALSE(committed.ok());
  EXPECT_EQ(committed.error().message(), "/dev/full: cannot write: No space left on device");
}

TEST_F(Output, JsonLines) {
  EXPECT_EQ(Written(VectorFormat::kJsonl),
            "{\"index\":0,\"tokens\":3,\"truncated\":false,\"embedding\":[0.5,-1]}\n"
            "{\"index\":1,\"tokens\":4,\"truncated\":true,\"embedding\":[2,0.1]}\n");
}

TEST_F(Output, Csv) { EXPECT_EQ(Written(VectorFormat::kCsv), "0.5,-1\n2,0.1\n"); }

TEST_F(Output, RawFloats) {
  // 0.5 is 3F000000, -1 is BF800000, 2 is 40000000, 0.1 is 3DCCCCCD.
  EXPECT_EQ(Written(VectorFormat::kF32),
            std::string_view("\0\0\0\x3F\0\0\x80\xBF\0\0\0\x40\xCD\xCC\xCC\x3D", 16));
}

TEST_F(Output, NumpyMatrixKnowsItsRows) {
  const std::string file = Written(VectorFormat::kNpy);
  EXPECT_EQ(file.size(), kNpyHeaderBytes + 16);
  Result<Matrix> matrix = ParseNpy(file, "out");
  ASSERT_TRUE(matrix.ok()) << matrix.error().message();
  EXPECT_EQ(matrix.value().rows, 2u);
  EXPECT_EQ(matrix.value().values, TwoRows().values);
}

TEST_F(Output, NumpyMatrixThroughAPipeIsTheSame) {
  const std::string direct = Written(VectorFormat::kNpy);
  const std::string pipe = (folder_ / "pipe").string();
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const pid_t child = fork();
  if (child == 0) {
    Result<OutputFile> output = OutputFile::Create(pipe);
    VectorWriter writer(output.value(), VectorFormat::kNpy);
    const bool ok =
        writer.Add(TwoRows()).ok() && writer.Finish().ok() && output.value().Commit().ok();
    _exit(ok ? 0 : 1);
  }
  EXPECT_EQ(Content(pipe), direct);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(Output, ARowThatIsNotFiniteIsRefused) {
  Result<OutputFile> output = OutputFile::Create(path_);
  VectorWriter writer(output.value(), VectorFormat::kJsonl);
  Embeddings rows = TwoRows();
  rows.values[2] = std::numeric_limits<float>::quiet_NaN();
  Result<void> added = writer.Add(rows);
  ASSERT_FALSE(added.ok());
  EXPECT_THAT(added.error().message(), HasSubstr("the vector of text 1 holds NaN"));
}

}  // namespace
}  // namespace sprat::cli
