#include "base/json_string.h"

#include <gtest/gtest.h>

namespace sprat {
namespace {

std::string Quoted(std::string_view text) {
  std::string out;
  AppendJsonString(text, out);
  return out;
}

TEST(AppendJsonString, EscapesWhatJsonForbids) {
  EXPECT_EQ(Quoted(""), "\"\"");
  EXPECT_EQ(Quoted("a\"b\\c/\n\r\t"), R"("a\"b\\c/\n\r\t")");
  EXPECT_EQ(Quoted(std::string_view("\0\x1f", 2)), R"("\u0000\u001f")");
  EXPECT_EQ(Quoted("\x7f"), "\"\x7f\"");
  EXPECT_EQ(Quoted("Ky\u014dto \U0001F600"), "\"Ky\u014dto \U0001F600\"");
}

TEST(AppendJsonString, ReplacesWhatIsNotUtf8) {
  const std::string fffd = "\xEF\xBF\xBD";
  EXPECT_EQ(Quoted("a\xFF\xFE"), "\"a" + fffd + fffd + "\"");
  EXPECT_EQ(Quoted("\xC0\x80"), "\"" + fffd + fffd + "\"");             // overlong NUL
  EXPECT_EQ(Quoted("\xED\xA0\xBD"), "\"" + fffd + fffd + fffd + "\"");  // a surrogate
  EXPECT_EQ(Quoted("\xE2\x82"), "\"" + fffd + "\"");                    // cut
  EXPECT_EQ(Quoted("\xE2\x82x"), "\"" + fffd + "x\"");                  // cut short
  EXPECT_EQ(Quoted("\xF5\x80\x80\x80"), "\"" + fffd + fffd + fffd + fffd + "\"");
}

}  // namespace
}  // namespace sprat
