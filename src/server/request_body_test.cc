#include "server/request_body.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sprat::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Keeps the body alive, with the padding that the parser reads.
class Body {
 public:
  explicit Body(std::string_view text) : padded_(text), size_(text.size()) {
    padded_.append(kBodyPadding, '\0');
  }
  std::string_view view() const { return {padded_.data(), size_}; }

 private:
  std::string padded_;
  size_t size_;
};

ApiError OpenAiError(std::string_view text) {
  const Body body(text);
  const Parsed<OpenAiRequest> parsed = ParseOpenAi(body.view(), {});
  if (const ApiError* error = std::get_if<ApiError>(&parsed)) return *error;
  return {.status = 200, .message = "accepted"};
}

ApiError TeiError(std::string_view text) {
  const Body body(text);
  const Parsed<TeiEmbedRequest> parsed = ParseTeiEmbed(body.view(), {});
  if (const ApiError* error = std::get_if<ApiError>(&parsed)) return *error;
  return {.status = 200, .message = "accepted"};
}

TEST(ParseOpenAi, ReadsEveryField) {
  const Body body(R"({"input":["a","b"],"model":"m","encoding_format":"base64","dimensions":3,
                      "user":"u","prompt_name":"query","truncate":false,"other":[1,{"x":2}]})");
  const auto parsed = ParseOpenAi(body.view(), {});
  ASSERT_TRUE(std::holds_alternative<OpenAiRequest>(parsed)) << std::get<ApiError>(parsed).message;
  const OpenAiRequest& request = std::get<OpenAiRequest>(parsed);
  EXPECT_THAT(request.input.texts, ElementsAre("a", "b"));
  EXPECT_FALSE(request.input.is_tokens);
  EXPECT_EQ(request.model, "m");
  EXPECT_TRUE(request.base64);
  EXPECT_EQ(request.options.dimensions, 3u);
  EXPECT_EQ(request.options.prompt_name, "query");
  EXPECT_FALSE(request.options.truncate);
}

TEST(ParseOpenAi, NullIsAbsent) {
  const Body body(R"({"input":"a","model":null,"encoding_format":null,"dimensions":null,
                      "user":null,"prompt_name":null,"truncate":null})");
  const auto parsed = ParseOpenAi(body.view(), {});
  ASSERT_TRUE(std::holds_alternative<OpenAiRequest>(parsed)) << std::get<ApiError>(parsed).message;
  const OpenAiRequest& request = std::get<OpenAiRequest>(parsed);
  EXPECT_EQ(request.model, "");
  EXPECT_FALSE(request.base64);
  EXPECT_FALSE(request.options.dimensions.has_value());
  EXPECT_TRUE(request.options.truncate);
}

TEST(ParseOpenAi, ANumberFirstMeansOneInputOfTokenIds) {
  const Body one(R"({"input":[2204,2851]})");
  const OpenAiRequest single = std::get<OpenAiRequest>(ParseOpenAi(one.view(), {}));
  EXPECT_TRUE(single.input.is_tokens);
  EXPECT_EQ(single.input.size(), 1u);
  EXPECT_THAT(single.input.ids, ElementsAre(2204u, 2851u));
  const Body two(R"({"input":[[2204,2851],[2204]]})");
  const OpenAiRequest pair = std::get<OpenAiRequest>(ParseOpenAi(two.view(), {}));
  EXPECT_EQ(pair.input.size(), 2u);
  EXPECT_THAT(pair.input.ids, ElementsAre(2204u, 2851u, 2204u));
  EXPECT_THAT(pair.input.offsets, ElementsAre(0u, 2u, 3u));
}

TEST(ParseOpenAi, TheEmptyStringIsAText) {
  EXPECT_EQ(OpenAiError(R"({"input":""})").status, 200);
  EXPECT_EQ(OpenAiError(R"({"input":["", "a"]})").status, 200);
}

TEST(ParseOpenAi, EmptyListsAre400) {
  for (const char* body : {R"({"input":[]})", R"({"input":[[]]})", R"({"input":[[1],[]]})"}) {
    const ApiError error = OpenAiError(body);
    EXPECT_EQ(error.status, 400) << body;
    EXPECT_THAT(error.param, testing::StartsWith("input")) << body;
  }
}

TEST(ParseOpenAi, WrongTypesAre400AndNameTheField) {
  for (const char* input : {"null", "5", "true", "{}", R"({"text":"x"})", R"(["a", 5])",
                            R"(["a", null])", R"(["a", ["b"]])", "[1.5]", "[-1]", "[1, \"a\"]",
                            "[[1], 2]", "[4294967296]", "[[\"a\"]]"}) {
    const ApiError error = OpenAiError(std::string(R"({"input":)") + input + "}");
    EXPECT_EQ(error.status, 400) << input;
    EXPECT_THAT(error.message, HasSubstr("input")) << input;
  }
  EXPECT_EQ(OpenAiError("{}").message, "'input' is missing");
  EXPECT_EQ(OpenAiError(R"({"input":["a", 5]})").message,
            "'input[1]' must be a string, got a number");
  EXPECT_EQ(OpenAiError(R"({"input":"a","model":5})").param, "model");
  EXPECT_EQ(OpenAiError(R"({"input":"a","encoding_format":"hex"})").param, "encoding_format");
  EXPECT_EQ(OpenAiError(R"({"input":"a","dimensions":0})").message,
            "'dimensions' must be at least 1, got 0");
  EXPECT_EQ(OpenAiError(R"({"input":"a","dimensions":1.5})").param, "dimensions");
  EXPECT_EQ(OpenAiError(R"({"input":"a","dimensions":18446744073709551615})").param, "dimensions");
  EXPECT_EQ(OpenAiError(R"({"input":"a","truncate":"yes"})").param, "truncate");
}

TEST(ParseOpenAi, NumbersOfAnySizeInUnknownFieldsAreIgnored) {
  for (const char* number : {"1e999", "-1e999", "1e-999", "18446744073709551616",
                             "-9223372036854775809", "1000000000000000019884624838656"}) {
    const std::string body = std::string(R"({"user_data":)") + number +
                             R"(,"input":"1e999","more":[{"x":)" + number + R"(}]})";
    const Body padded(body);
    const auto parsed = ParseOpenAi(padded.view(), {});
    ASSERT_TRUE(std::holds_alternative<OpenAiRequest>(parsed))
        << number << ": " << std::get<ApiError>(parsed).message;
    EXPECT_THAT(std::get<OpenAiRequest>(parsed).input.texts, ElementsAre("1e999")) << number;
  }
}

TEST(ParseOpenAi, NumbersThatAreTooLargeInKnownFieldsNameThem) {
  for (const char* number : {"1e999", "18446744073709551616", "-9223372036854775809"}) {
    const auto with = [&](const char* before) { return before + std::string(number); };
    EXPECT_EQ(OpenAiError(with(R"({"input":"a","dimensions":)") + "}").message,
              "'dimensions' must be an integer, got a number that is none or too large")
        << number;
    EXPECT_EQ(OpenAiError(with(R"({"input":[1,)") + "]}").message,
              "'input[1]' must be a token id, a whole number from 0 on, and is none")
        << number;
    EXPECT_EQ(OpenAiError(with(R"({"input":)") + "}").param, "input") << number;
    EXPECT_EQ(OpenAiError(with(R"({"input":"a","user":)") + "}").param, "user") << number;
  }
}

TEST(ParseOpenAi, WhatIsNotAJsonObjectIs400) {
  for (const char* body : {"", "[]", "nul", R"({"input":"a")", "\"a\"", R"({"input":"a"} x)",
                           "{\"input\":\"\xFF\xFE\"}", "{\"input\":\"\xED\xA0\xBD\"}",
                           R"({"input":1e999})", R"({"input":"\ud83d"})"}) {
    const ApiError error = OpenAiError(body);
    EXPECT_EQ(error.status, 400) << body;
    EXPECT_EQ(error.message.find('\xFF'), std::string::npos);
  }
}

TEST(ParseOpenAi, DepthIsLimited) {
  const auto nested = [](size_t levels) {
    return R"({"input":"a","other":)" + std::string(levels, '[') + "1" + std::string(levels, ']') +
           "}";
  };
  EXPECT_EQ(OpenAiError(nested(15)).status, 200);  // and the object itself: 16
  const ApiError error = OpenAiError(nested(16));
  EXPECT_EQ(error.status, 400);
  EXPECT_THAT(error.message, HasSubstr("at most 16 levels"));
  EXPECT_EQ(OpenAiError(nested(10'000)).status, 400);
}

TEST(ParseOpenAi, AFieldGivenTwiceIsAnError) {
  EXPECT_EQ(OpenAiError(R"({"input":"a","input":"b"})").message, "'input' is given twice");
}

TEST(ParseOpenAi, ItemsAreLimited) {
  const auto list = [](size_t n) {
    std::string body = R"({"input":["a")";
    for (size_t i = 1; i < n; ++i) body += R"(,"a")";
    return body + "]}";
  };
  EXPECT_EQ(OpenAiError(list(2048)).status, 200);
  EXPECT_EQ(OpenAiError(list(2049)).message, "'input' has 2049 entries, expected at most 2048");
}

TEST(ParseOpenAi, KeepsNulBytes) {
  const Body body(R"({"input":"a\u0000b"})");
  const OpenAiRequest request = std::get<OpenAiRequest>(ParseOpenAi(body.view(), {}));
  EXPECT_EQ(request.input.texts.front(), std::string_view("a\0b", 3));
}

TEST(ParseTeiEmbed, WrongTypesAndEmptyListsAre422) {
  EXPECT_EQ(TeiError(R"({"inputs":[]})").status, 422);
  EXPECT_EQ(TeiError(R"({"inputs":5})").status, 422);
  EXPECT_EQ(TeiError(R"({"inputs":["a",5]})").status, 422);
  EXPECT_EQ(TeiError("{}").status, 422);
  EXPECT_EQ(TeiError("[]").status, 422);
  EXPECT_EQ(TeiError("nul").status, 400);
  EXPECT_EQ(TeiError(R"({"inputs":"a","dimensions":0})").status, 400);
  EXPECT_EQ(TeiError(R"({"inputs":"a","truncation_direction":"Left"})").status, 400);
}

TEST(ParseTeiEmbed, ReadsItsFields) {
  const Body body(R"({"inputs":"a","normalize":false,"truncate":false,"dimensions":2,
                      "truncation_direction":"Right"})");
  const TeiEmbedRequest request = std::get<TeiEmbedRequest>(ParseTeiEmbed(body.view(), {}));
  EXPECT_THAT(request.input.texts, ElementsAre("a"));
  EXPECT_FALSE(request.input.is_list);
  EXPECT_EQ(request.options.normalize, false);
  EXPECT_FALSE(request.options.truncate);
  EXPECT_EQ(request.options.dimensions, 2u);
}

TEST(ParseTeiSimilarity, ReadsSourceAndSentences) {
  const Body body(R"({"inputs":{"source_sentence":"a","sentences":["b","c"]},
                      "parameters":{"truncate":false}})");
  const auto request = std::get<TeiSimilarityRequest>(ParseTeiSimilarity(body.view(), {}));
  EXPECT_THAT(request.texts, ElementsAre("a", "b", "c"));
  EXPECT_FALSE(request.options.truncate);
  for (const char* wrong : {R"({"inputs":"a"})", R"({"inputs":{"source_sentence":"a"}})",
                            R"({"inputs":{"source_sentence":"a","sentences":[]}})",
                            R"({"inputs":{"sentences":["a"]}})"}) {
    const Body bad(wrong);
    EXPECT_EQ(std::get<ApiError>(ParseTeiSimilarity(bad.view(), {})).status, 422) << wrong;
  }
}

TEST(ParseTeiTokenize, TakesOneTextOrSeveral) {
  const Body one(R"({"inputs":"a","add_special_tokens":false})");
  const auto single = std::get<TeiTokenizeRequest>(ParseTeiTokenize(one.view(), {}));
  EXPECT_THAT(single.texts, ElementsAre("a"));
  EXPECT_FALSE(single.add_special_tokens);
  const Body two(R"({"inputs":["a","b"]})");
  EXPECT_EQ(std::get<TeiTokenizeRequest>(ParseTeiTokenize(two.view(), {})).texts.size(), 2u);
}

TEST(ErrorBody, HasTheShapeOfEachApi) {
  const ApiError error = BadRequest("no \"x\"", "input");
  EXPECT_EQ(ErrorBody(ApiStyle::kOpenAi, error),
            R"({"error":{"message":"no \"x\"","type":"invalid_request_error","param":"input",)"
            R"("code":null}})");
  EXPECT_EQ(ErrorBody(ApiStyle::kTei, error), R"({"error":"no \"x\"","error_type":"validation"})");
}

TEST(FromError, MapsCodesToStatuses) {
  const auto status = [](ErrorCode code) { return FromError(Error(code, "m")).status; };
  EXPECT_EQ(status(ErrorCode::kInvalidArgument), 400);
  EXPECT_EQ(status(ErrorCode::kTooLong), 413);
  EXPECT_EQ(status(ErrorCode::kOverloaded), 429);
  EXPECT_EQ(status(ErrorCode::kDevice), 500);
  EXPECT_EQ(status(ErrorCode::kInternal), 500);
}

}  // namespace
}  // namespace sprat::server
