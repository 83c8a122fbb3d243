#include "tokenizer/decoder.h"

#include <gtest/gtest.h>

namespace sprat {
namespace {

using Tokens = std::vector<std::string>;

std::string Decoded(const Decoder& decoder, Tokens tokens) {
  Result<std::string> text = decoder.Decode(std::move(tokens));
  return text.ok() ? text.value() : "error: " + text.error().message();
}

TEST(Decoder, NoneJoinsWithSpaces) {
  EXPECT_EQ(Decoded(Decoder(), {"a", "##b", "c"}), "a ##b c");
  EXPECT_EQ(Decoded(Decoder(), {}), "");
}

TEST(Decoder, WordPieceJoinsPiecesAndMovesPunctuation) {
  const Decoder decoder({WordPieceDecoder{}});
  EXPECT_EQ(Decoded(decoder, {"un", "##happ", "##y", "?", "he", "don", "'", "t"}),
            "unhappy? he don ' t");  // the marks are looked for inside one token
  EXPECT_EQ(Decoded(decoder, {"##s", "##s"}), "##ss");
  EXPECT_EQ(Decoded(Decoder({WordPieceDecoder{.prefix = "@", .cleanup = false}}), {"a", "@b", "."}),
            "ab .");
}

TEST(Decoder, MetaspaceBecomesSpaceButInFront) {
  const Tokens tokens = {"\u2581good", "\u2581morn", "ing\u2581"};
  EXPECT_EQ(Decoded(Decoder({MetaspaceDecoder{}}), tokens), "good morning ");
  EXPECT_EQ(Decoded(Decoder({MetaspaceDecoder{.drops_first = false}}), tokens), " good morning ");
}

TEST(Decoder, ByteLevelCharactersAreBytes) {
  const Decoder decoder({ByteLevelDecoder{}});
  EXPECT_EQ(Decoded(decoder, {"caf", "\u00c3", "\u00a9", "\u0120au"}), "caf\u00e9 au");
  // Alone, the byte C3 starts a character that does not come.
  EXPECT_EQ(Decoded(decoder, {"\u00c3", "a"}), "\ufffda");
  // E2 82 could become the euro sign: one replacement for both.
  EXPECT_EQ(Decoded(decoder, {"\u00e2\u0124", "a"}), "\ufffda");
  // U+4E00 stands for no byte: the token is taken as it is.
  EXPECT_EQ(Decoded(decoder, {"\u0120\u4e00"}), "\u0120\u4e00");
  // The last of the characters that stand for others: 0x7F, 0xA0 and 0xAD.
  EXPECT_EQ(Decoded(decoder, {"\u00c2\u0142\u00c2\u0143\u0121"}), "\u00a0\u00ad\x7f");
}

TEST(Decoder, SuffixEndsWords) {
  const Decoder decoder({SuffixDecoder{"</w>"}});
  EXPECT_EQ(Decoded(decoder, {"lo", "w</w>", "er</w>"}), "low er");
}

TEST(Decoder, BytesThatMakeNoCharacterAreReplacedOneByOne) {
  const Decoder decoder({ByteFallbackDecoder{}, FuseDecoder{}});
  EXPECT_EQ(Decoded(decoder, {"<0xC3>", "<0xA9>", "x"}), "\u00e9x");
  EXPECT_EQ(Decoded(decoder, {"x", "<0xC3>", "<0xA9>"}), "x\u00e9");
  EXPECT_EQ(Decoded(decoder, {"<0xE2>", "<0x82>", "x"}), "\ufffd\ufffdx");
  EXPECT_EQ(Decoded(decoder, {"<0xG1>", "<0x1>"}), "<0xG1><0x1>");
}

TEST(Decoder, LlamaSequence) {
  const Decoder decoder({Replace{Regex::Literal("\u2581"), "", " "}, ByteFallbackDecoder{},
                         FuseDecoder{}, StripDecoder{.content = U' ', .start = 1, .stop = 0}});
  EXPECT_EQ(Decoded(decoder, {"\u2581\u2581a", "\u2581b\u2581"}), " a b ");
}

TEST(Decoder, StripTakesNoMoreThanItMay) {
  const Decoder decoder({StripDecoder{.content = U'é', .start = 1, .stop = 2}});
  EXPECT_EQ(Decoded(decoder, {"ééaééé", "é", ""}), "éaé");
}

TEST(Decoder, UnsupportedOnesSaySo) {
  const Decoder decoder(Error(ErrorCode::kUnsupported, "decoder.type 'CTC'"));
  Result<std::string> text = decoder.Decode({"a"});
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.error().code(), ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace sprat
