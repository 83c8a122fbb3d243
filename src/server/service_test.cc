#include "server/service.h"

#include <gtest/gtest.h>

namespace sprat::server {
namespace {

TEST(HeavyThreads, AreHalfTheCpusFromOneToEight) {
  EXPECT_EQ(HeavyThreads(1), 1u);
  EXPECT_EQ(HeavyThreads(3), 1u);
  EXPECT_EQ(HeavyThreads(4), 2u);
  EXPECT_EQ(HeavyThreads(16), 8u);
  EXPECT_EQ(HeavyThreads(256), 8u);
}

}  // namespace
}  // namespace sprat::server
