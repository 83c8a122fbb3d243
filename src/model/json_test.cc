#include "model/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sprat {
namespace {

Result<JsonDocument> Parse(std::string_view text) {
  return JsonDocument::Parse("here", std::as_bytes(std::span(text)));
}

std::string FaultOf(std::string_view text) {
  Result<JsonDocument> document = Parse(text);
  return document.ok() ? "no error" : document.error().message();
}

TEST(JsonDocument, RefusesWhatIsNotJson) {
  EXPECT_EQ(FaultOf(""), "here: empty, expected JSON");
  for (const std::string_view text :
       {" ", "{", "{\"a\": 1}}", "{\"a\": 01}", "{'a': 1}", "\"\xff\"", "{\"a\": nul}", "[1,]",
        "12345678901234567890123.", "-", "[1e]"}) {
    EXPECT_THAT(FaultOf(text), testing::StartsWith("here: not valid JSON: ")) << text;
  }
  EXPECT_EQ(FaultOf("{\"a\": [1, -2.5e3, true, null, \"\\u00e9\"]}"), "no error");
}

TEST(JsonDocument, RefusesDeepNesting) {
  EXPECT_EQ(FaultOf(std::string(50, '[') + std::string(50, ']')), "no error");
  EXPECT_THAT(FaultOf(std::string(100, '[') + std::string(100, ']')),
              testing::StartsWith("here: not valid JSON: "));
}

TEST(JsonDocument, RefusesDuplicateKeysAtAnyDepth) {
  EXPECT_EQ(FaultOf(R"({"a": 1, "b": {"a": 2}})"), "no error");
  EXPECT_EQ(FaultOf(R"({"a": 1, "b": 2, "a": 3})"), "here: duplicate key \"a\"");
  EXPECT_EQ(FaultOf(R"([{"x": [{"b": 1, "b": 1}]}])"), "here: duplicate key \"b\"");
}

TEST(JsonDocument, NumbersBeyond64BitsAreReals) {
  Result<JsonDocument> document = Parse(
      R"({"text": "\\\"100000000000000000000", "n": 100000000000000000000, "m": [-100000000000000000000]})");
  ASSERT_TRUE(document.ok()) << document.error().message();
  const JsonFields fields("here", document.value().Object().value());
  EXPECT_EQ(fields.Number("n").value(), 1e20);
  EXPECT_EQ(fields.String("text").value(), "\\\"100000000000000000000");
  EXPECT_EQ(Shown(*fields.Find("m")), "[-1e+20]");
}

TEST(JsonFields, AbsentAndNullAreNothingAndOtherTypesAreErrors) {
  Result<JsonDocument> document =
      Parse(R"({"null": null, "yes": true, "seven": 7, "half": 0.5, "word": "w"})");
  ASSERT_TRUE(document.ok());
  const JsonFields fields("here", document.value().Object().value());
  EXPECT_EQ(fields.Bool("absent").value(), std::nullopt);
  EXPECT_EQ(fields.Bool("null").value(), std::nullopt);
  EXPECT_EQ(fields.Bool("yes").value(), true);
  EXPECT_EQ(fields.Number("seven").value(), 7.0);
  EXPECT_EQ(fields.Integer("seven", {.least = 1, .most = 7}).value(), 7u);
  EXPECT_EQ(fields.Integer("seven", {.least = 1, .most = 6}).error().message(),
            "here: seven: expected a whole number from 1 to 6, got 7");
  EXPECT_EQ(fields.Integer("half", {.least = 0, .most = 6}).error().message(),
            "here: half: expected a whole number from 0 to 6, got 0.5");
  EXPECT_EQ(fields.String("seven").error().message(), "here: seven: expected a string, got 7");
  EXPECT_EQ(fields.Bool("word").error().message(), "here: word: expected true or false, got \"w\"");
  EXPECT_EQ(fields.Missing("x", "a string").message(), "here: x is missing, expected a string");
}

TEST(Shown, CutsLongValues) {
  Result<JsonDocument> document = Parse("\"" + std::string(100, 'x') + "\"");
  ASSERT_TRUE(document.ok());
  EXPECT_EQ(Shown(document.value().root()), "\"" + std::string(59, 'x') + "...");
}

}  // namespace
}  // namespace sprat
