#include "server/http_client.h"

#include <gtest/gtest.h>

namespace sprat::server {
namespace {

std::string Parts(std::string_view text) {
  const Result<Url> url = ParseUrl(text);
  if (!url.ok()) return "error";
  return (url.value().tls ? "tls " : "plain ") + url.value().host + " " + url.value().port + " " +
         url.value().prefix;
}

TEST(ParseUrl, TakesHostPortAndPathApart) {
  EXPECT_EQ(Parts("http://localhost:8080"), "plain localhost 8080 ");
  EXPECT_EQ(Parts("https://a.example"), "tls a.example 443 ");
  EXPECT_EQ(Parts("http://a.example/"), "plain a.example 80 ");
  EXPECT_EQ(Parts("http://a.example/x/v1//"), "plain a.example 80 /x/v1");
  EXPECT_EQ(Parts("https://[::1]:9/y"), "tls ::1 9 /y");
}

TEST(ParseUrl, RefusesTheRest) {
  for (const char* text : {"", "localhost:8080", "ftp://a", "http://", "http:///x", "http://:80",
                           "http://a:", "http://a:x", "http://a:123456", "http://[::1",
                           "http://a b", "http://a/\xC3\xA9", "http://u@a", "http://a?x=1"}) {
    EXPECT_EQ(Parts(text), "error") << text;
  }
}

TEST(HttpClient, ARefusedConnectionNamesTheHost) {
  HttpClient client(ParseUrl("http://127.0.0.1:1").value());
  const Result<HttpReply> reply = client.Get("/health");
  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.error().code(), ErrorCode::kIo);
  EXPECT_TRUE(reply.error().message().starts_with("127.0.0.1:1: cannot connect: "))
      << reply.error().message();
}

}  // namespace
}  // namespace sprat::server
