#include "tokenizer/added_tokens.h"

#include <gtest/gtest.h>

#include <string>

namespace sprat {
namespace {

// What the tokens make of `text`: "[begin,end)id" for each match.
std::string Matches(std::vector<AddedToken> tokens, std::string_view text,
                    bool parse_special = true) {
  const Result<AddedTokens> added = AddedTokens::Build(std::move(tokens));
  EXPECT_TRUE(added.ok());
  std::string found;
  AddedTokens::Position position;
  while (const auto match = added.value().Next(text, position, parse_special)) {
    found += "[" + std::to_string(match->begin) + "," + std::to_string(match->end) + ")" +
             std::to_string(match->id);
    position = {match->resume, match->end};
  }
  return found;
}

TEST(AddedTokens, LeftmostThenLongest) {
  EXPECT_EQ(Matches({{"ab", 1}, {"abc", 2}, {"bcd", 3}}, "xabcd ab"), "[1,4)2[6,8)1");
  EXPECT_EQ(Matches({{"[A]", 1}}, "[[A]][A"), "[1,4)1");
  EXPECT_EQ(Matches({}, "anything"), "");
}

TEST(AddedTokens, SingleWordWantsNoWordCharacterBeside) {
  const AddedToken token{.content = "cat", .id = 1, .single_word = true};
  EXPECT_EQ(Matches({token}, "cat cats concat cat_ -cat- \u00e9cat"), "[0,3)1[22,25)1");
}

TEST(AddedTokens, ARefusedMatchHidesWhatOverlapsIt) {
  const AddedToken longer{.content = "new york", .id = 1, .single_word = true};
  EXPECT_EQ(Matches({longer, {"york", 2}}, "new yorks york"), "[10,14)2");
}

TEST(AddedTokens, StripsWhiteSpaceOnTheSidesAskedFor) {
  const std::string text = "a \u3000\n<m> \tb";  // white space of one and three bytes
  EXPECT_EQ(Matches({{"<m>", 1}}, text), "[6,9)1");
  EXPECT_EQ(Matches({{.content = "<m>", .id = 1, .lstrip = true}}, text), "[1,9)1");
  EXPECT_EQ(Matches({{.content = "<m>", .id = 1, .rstrip = true}}, text), "[6,11)1");
  const AddedToken both{.content = "<m>", .id = 1, .lstrip = true, .rstrip = true};
  EXPECT_EQ(Matches({both}, "<m> <m>"), "[0,4)1[4,7)1");
}

TEST(AddedTokens, SpecialOnesCanBeLeftAlone) {
  const AddedToken special{.content = "[S]", .id = 1, .special = true};
  EXPECT_EQ(Matches({special, {"[T]", 2}}, "[S][T]", true), "[0,3)1[3,6)2");
  EXPECT_EQ(Matches({special, {"[T]", 2}}, "[S][T]", false), "[3,6)2");
}

TEST(AddedTokens, AnEmptyOneIsRefused) { EXPECT_FALSE(AddedTokens::Build({{"", 1}}).ok()); }

}  // namespace
}  // namespace sprat
