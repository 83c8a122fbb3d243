#include "kernels/dispatch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace sprat {
namespace {

using testing::HasSubstr;

TEST(Dispatch, ScalarRunsEverywhereAndIsTheLast) {
  ASSERT_FALSE(RunnableKernels().empty());
  EXPECT_STREQ(RunnableKernels().back()->name, "scalar");
}

TEST(Dispatch, EveryRunnableTableIsFoundByItsName) {
  for (const Kernels* table : RunnableKernels()) {
    ASSERT_TRUE(FindKernels(table->name).ok());
    EXPECT_EQ(FindKernels(table->name).value(), table);
  }
}

TEST(Dispatch, NoNameIsTheBestTable) {
  EXPECT_EQ(FindKernels("").value(), RunnableKernels().front());
}

TEST(Dispatch, AnUnknownNameIsAnErrorThatListsWhatThereIs) {
  const Result<const Kernels*> found = FindKernels("AVX512");  // names are exact
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(found.error().message(), HasSubstr("'AVX512'"));
  for (const Kernels* table : RunnableKernels()) {
    EXPECT_THAT(found.error().message(), HasSubstr(table->name));
  }
}

// Sets the variable for one test.
class ForcedIsa {
 public:
  explicit ForcedIsa(const char* name) {
    const char* before = std::getenv("SPRAT_FORCE_ISA");
    was_set_ = before != nullptr;
    if (was_set_) before_ = before;
    setenv("SPRAT_FORCE_ISA", name, 1);
  }
  ~ForcedIsa() {
    if (was_set_) {
      setenv("SPRAT_FORCE_ISA", before_.c_str(), 1);
    } else {
      unsetenv("SPRAT_FORCE_ISA");
    }
  }

 private:
  bool was_set_ = false;
  std::string before_;
};

TEST(Dispatch, TheEnvironmentChooses) {
  const ForcedIsa forced("scalar");
  EXPECT_STREQ(ActiveKernels().value()->name, "scalar");
}

TEST(Dispatch, TheEnvironmentsMistakeIsNamed) {
  const ForcedIsa forced("sse9");
  ASSERT_FALSE(ActiveKernels().ok());
  EXPECT_THAT(ActiveKernels().error().message(), HasSubstr("SPRAT_FORCE_ISA"));
  EXPECT_THAT(ActiveKernels().error().message(), HasSubstr("'sse9'"));
}

}  // namespace
}  // namespace sprat
