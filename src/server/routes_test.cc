#include "server/routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sprat::server {
namespace {

using testing::HasSubstr;

int StatusOf(const Service& service, const Head& head) {
  const std::optional<Response> response = CheckHead(service, head);
  return response.has_value() ? response->status : 200;
}

TEST(PathOf, EndsAtTheQuery) {
  EXPECT_EQ(PathOf("/embed?x=/y"), "/embed");
  EXPECT_EQ(PathOf("/embed"), "/embed");
  EXPECT_EQ(PathOf("*"), "*");
}

TEST(FindRoute, IsExact) {
  EXPECT_EQ(FindRoute("/embed", "POST")->path, "/embed");
  EXPECT_EQ(FindRoute("/embed", "PUT")->path, "/embed");
  EXPECT_EQ(FindRoute("/v1/models/a/b", "GET")->path, "/v1/models");
  EXPECT_EQ(FindRoute("/", "HEAD")->handler, Page);
  EXPECT_EQ(FindRoute("/", "POST")->handler, TeiEmbed);
  for (const char* path : {"", "/embed/", "/EMBED", "embed", "//embed", "/v1/models2", "/v1"}) {
    EXPECT_EQ(FindRoute(path, "GET"), nullptr) << path;
  }
}

TEST(CheckHead, RefusesWhatNoHandlerTakes) {
  const Service service({});
  EXPECT_EQ(StatusOf(service, {.method = "GET", .path = "/nothing"}), 404);
  EXPECT_EQ(StatusOf(service, {.method = "PUT", .path = "/health"}), 405);
  EXPECT_EQ(StatusOf(service, {.method = "HEAD", .path = "/health"}), 200);
  EXPECT_EQ(StatusOf(service, {.method = "HEAD", .path = "/embed"}), 405);
  EXPECT_EQ(StatusOf(service, {.method = "POST", .path = "/embed", .content_type = "text/plain"}),
            415);
}

TEST(CheckHead, ModelsAreLoadingUntilTheyAreReady) {
  const Service service({});
  for (const char* type : {"", "application/json", "Application/JSON ; charset=utf-8"}) {
    EXPECT_EQ(StatusOf(service, {.method = "POST", .path = "/embed", .content_type = type}), 503);
  }
  EXPECT_EQ(StatusOf(service, {.method = "GET", .path = "/metrics"}), 200);
}

TEST(CheckHead, ErrorsHaveTheStyleOfTheirPath) {
  const Service service({});
  EXPECT_THAT(CheckHead(service, {.method = "GET", .path = "/v1/x"})->body,
              HasSubstr(R"({"error":{"message":)"));
  EXPECT_THAT(CheckHead(service, {.method = "GET", .path = "/x"})->body,
              HasSubstr(R"("error_type":)"));
  EXPECT_EQ(CheckHead(service, {.method = "GET", .path = "/embed"})->headers, "Allow: POST\r\n");
}

}  // namespace
}  // namespace sprat::server
