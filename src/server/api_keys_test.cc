#include "server/api_keys.h"

#include <gtest/gtest.h>

namespace sprat::server {
namespace {

TEST(ApiKeys, ComparesTheSchemeWithoutCaseAndTheKeyExactly) {
  const ApiKeys keys = ApiKeys::Parse("k-1\n").value();
  for (const char* allowed : {"Bearer k-1", "bearer k-1", "BEARER  k-1", "Bearer k-1 "}) {
    EXPECT_TRUE(keys.Allow(allowed)) << allowed;
  }
  for (const char* refused : {"Bearer K-1", "Bearer k-1x", "Bearer k-", "Bearer ", "Bearer", "k-1",
                              "", "Basic k-1", "Bearerk-1", "Bearer k-1 k-1"}) {
    EXPECT_FALSE(keys.Allow(refused)) << refused;
  }
}

TEST(ApiKeys, AFileHasSeveralKeysAndComments) {
  const ApiKeys keys = ApiKeys::Parse("# staging\n  one  \r\n\ntwo").value();
  EXPECT_TRUE(keys.Allow("Bearer one"));
  EXPECT_TRUE(keys.Allow("Bearer two"));
  EXPECT_FALSE(keys.Allow("Bearer #"));
  EXPECT_FALSE(keys.Allow("Bearer # staging"));
}

TEST(ApiKeys, NoKeyOrAnUnusableOneIsAnError) {
  EXPECT_EQ(ApiKeys::Parse("").error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(ApiKeys::Parse("\n  \n# only a comment\n").error().code(), ErrorCode::kInvalidArgument);
  const Result<ApiKeys> spaced = ApiKeys::Parse("good\nse cret\n");
  ASSERT_FALSE(spaced.ok());
  EXPECT_EQ(spaced.error().message(),
            "line 2: a key must be visible ASCII without spaces, or no client can send it");
  EXPECT_FALSE(ApiKeys::Parse("k\xC3\xA4se").ok());
}

TEST(ApiKeys, AMissingFileIsNamed) {
  const Result<ApiKeys> keys = ApiKeys::Read("/nonexistent/keys");
  ASSERT_FALSE(keys.ok());
  EXPECT_EQ(keys.error().code(), ErrorCode::kNotFound);
}

TEST(ApiKeys, WhatCannotBeReadIsAnErrorAndNothingIsThrown) {
  for (const char* file : {"/", "/dev/zero"}) {  // a directory; one without an end
    const Result<ApiKeys> keys = ApiKeys::Read(file);
    ASSERT_FALSE(keys.ok()) << file;
    EXPECT_EQ(keys.error().code(), ErrorCode::kIo) << file;
  }
}

}  // namespace
}  // namespace sprat::server
