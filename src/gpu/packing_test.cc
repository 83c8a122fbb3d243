#include "gpu/packing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "gpu/half.h"

namespace sprat::gpu {
namespace {

using ::testing::HasSubstr;

TEST(Half, MatchesValuesWorkedOutByHand) {
  EXPECT_EQ(ToHalf(0.0f), 0x0000);
  EXPECT_EQ(ToHalf(-0.0f), 0x8000);
  EXPECT_EQ(ToHalf(1.0f), 0x3c00);
  EXPECT_EQ(ToHalf(-2.5f), 0xc100);
  EXPECT_EQ(ToHalf(65504.0f), 0x7bff);
  EXPECT_EQ(ToHalf(65519.0f), 0x7bff);    // below the middle to 2^16
  EXPECT_EQ(ToHalf(65520.0f), 0x7c00);    // the middle: even is infinity
  EXPECT_EQ(ToHalf(0x1p-14f), 0x0400);    // smallest normal
  EXPECT_EQ(ToHalf(0x1p-24f), 0x0001);    // smallest subnormal
  EXPECT_EQ(ToHalf(0x1p-25f), 0x0000);    // a tie goes to even
  EXPECT_EQ(ToHalf(0x1.8p-24f), 0x0002);  // 1.5 units: a tie goes to even
  EXPECT_EQ(ToHalf(1.0f + 0x1p-11f), 0x3c00);
  EXPECT_EQ(ToHalf(1.0f + 3 * 0x1p-11f), 0x3c02);
  EXPECT_TRUE(std::isnan(FromHalf(ToHalf(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(Half, EveryHalfSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    if ((half & 0x7c00) == 0x7c00 && (half & 0x3ff) != 0) continue;  // NaN
    ASSERT_EQ(ToHalf(FromHalf(half)), half) << bits;
  }
}

TEST(PackPanels, EveryElementIsFoundAgain) {
  constexpr size_t kRows{16}, kColumns{192}, kAllRows{40}, kFirst{8};
  std::vector<float> values(kRows * kColumns);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 2048);
  std::vector<uint16_t> panels(kAllRows * kColumns, 0x7e00);
  PackPanels(values,
             {.rows = kRows, .columns = kColumns, .first_row = kFirst, .panel_rows = kAllRows},
             panels);
  size_t untouched = 0;
  for (const uint16_t half : panels) untouched += half == 0x7e00;
  EXPECT_EQ(untouched, (kAllRows - kRows) * kColumns);
  for (size_t row = 0; row < kRows; ++row) {
    for (size_t column = 0; column < kColumns; ++column) {
      ASSERT_EQ(FromHalf(panels[PanelOffset(kFirst + row, column, kAllRows)]),
                values[row * kColumns + column]);
    }
  }
}

EncoderConfig OneLayer() {
  return {.layers = 1,
          .hidden = kHidden,
          .heads = kHeads,
          .ffn = kFfn,
          .vocabulary = 7,
          .positions = 5};
}

// Every tensor holds the number of reads before it; asked-for names are kept.
struct CountingReader {
  std::vector<std::string> names;
  ReadTensor Reader() {
    return [this](std::string_view name, std::span<const uint64_t>, std::span<float> out) {
      for (float& value : out) value = static_cast<float>(names.size());
      names.emplace_back(name);
      return Result<void>();
    };
  }
};

TEST(PackWeights, EveryTensorGoesToItsPlace) {
  CountingReader counting;
  const EncoderConfig config = OneLayer();
  Result<ByteBuffer> packed = PackWeights(config, counting.Reader());
  ASSERT_TRUE(packed.ok());
  const WeightLayout layout{.vocabulary = 7, .positions = 5, .layers = 1};
  ASSERT_EQ(packed.value().size_bytes(), layout.Bytes());
  const std::byte* weights = packed.value().begin();
  const auto number = [&](std::string_view name) {
    for (size_t i = 0; i < counting.names.size(); ++i) {
      if (counting.names[i] == name) return static_cast<float>(i);
    }
    ADD_FAILURE() << "never read: " << name;
    return -1.0f;
  };
  const auto half = [&](size_t at, size_t i) {
    return FromHalf(reinterpret_cast<const uint16_t*>(weights + at)[i]);
  };
  const auto single = [&](size_t at, size_t i) {
    return reinterpret_cast<const float*>(weights + at)[i];
  };
  EXPECT_EQ(half(layout.WordsAt(), 7 * kHidden - 1), number("embeddings.word_embeddings.weight"));
  EXPECT_EQ(half(layout.PositionsAt(), 0), number("embeddings.position_embeddings.weight") +
                                               number("embeddings.token_type_embeddings.weight"));
  EXPECT_EQ(single(layout.NormAt(0), kHidden), number("embeddings.LayerNorm.bias"));
  const size_t qkv = layout.MatrixAt(0, Matrix::kQkv);
  const std::string self = "encoder.layer.0.attention.self.";
  EXPECT_EQ(half(qkv, PanelOffset(383, 7, 1152)), number(self + "query.weight"));
  EXPECT_EQ(half(qkv, PanelOffset(384, 7, 1152)), number(self + "key.weight"));
  EXPECT_EQ(half(qkv, PanelOffset(768, 383, 1152)), number(self + "value.weight"));
  EXPECT_EQ(single(layout.BiasAt(0, Matrix::kQkv), 768), number(self + "value.bias"));
  EXPECT_EQ(half(layout.MatrixAt(0, Matrix::kOut), 0),
            number("encoder.layer.0.attention.output.dense.weight"));
  EXPECT_EQ(half(layout.MatrixAt(0, Matrix::kUp), PanelOffset(1535, 383, 1536)),
            number("encoder.layer.0.intermediate.dense.weight"));
  EXPECT_EQ(half(layout.MatrixAt(0, Matrix::kDown), PanelOffset(383, 1535, 384)),
            number("encoder.layer.0.output.dense.weight"));
  EXPECT_EQ(single(layout.NormAt(1), 0),
            number("encoder.layer.0.attention.output.LayerNorm.weight"));
  EXPECT_EQ(single(layout.NormAt(2), 0), number("encoder.layer.0.output.LayerNorm.weight"));
}

TEST(PackWeights, RefusesValuesBeyondHalf) {
  const ReadTensor large = [](std::string_view name, std::span<const uint64_t>,
                              std::span<float> out) {
    for (float& value : out) value = 0.0f;
    if (name == "encoder.layer.0.output.dense.weight") out[3] = 70000.0f;
    return Result<void>();
  };
  const Result<ByteBuffer> packed = PackWeights(OneLayer(), large);
  ASSERT_FALSE(packed.ok());
  EXPECT_EQ(packed.error().code(), ErrorCode::kUnsupported);
  EXPECT_THAT(packed.error().message(), HasSubstr("encoder.layer.0.output.dense.weight"));
  EXPECT_THAT(packed.error().message(), HasSubstr("70000"));
}

TEST(PackWeights, PassesTheReadersErrorOn) {
  const ReadTensor absent = [](std::string_view name, std::span<const uint64_t>,
                               std::span<float>) -> Result<void> {
    return Error(ErrorCode::kCorrupt, std::string(name) + " is absent");
  };
  const Result<ByteBuffer> packed = PackWeights(OneLayer(), absent);
  ASSERT_FALSE(packed.ok());
  EXPECT_EQ(packed.error().code(), ErrorCode::kCorrupt);
  EXPECT_THAT(packed.error().message(), HasSubstr("embeddings.word_embeddings.weight is absent"));
}

}  // namespace
}  // namespace sprat::gpu
