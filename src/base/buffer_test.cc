#include "base/buffer.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace sprat {
namespace {

TEST(Buffer, IsZeroedAndAligned) {
  Result<Buffer<float>> buffer = Buffer<float>::Allocate(100);
  ASSERT_TRUE(buffer.ok());
  EXPECT_EQ(buffer.value().size(), 100u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.value().begin()) % 64, 0u);
  for (const float x : buffer.value().span()) EXPECT_EQ(x, 0.0f);
}

TEST(Buffer, LargeOnesStartAtAHugePage) {
  Result<Buffer<float>> buffer = Buffer<float>::Allocate(size_t{1} << 20);
  ASSERT_TRUE(buffer.ok());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.value().begin()) % (size_t{2} << 20), 0u);
}

TEST(Buffer, MoveTransfersOwnership) {
  Buffer<int> first = Buffer<int>::Allocate(3).value();
  first[2] = 7;
  Buffer<int> second = std::move(first);
  EXPECT_EQ(second[2], 7);
}

TEST(Buffer, ImpossibleSizeIsAnError) {
  Result<Buffer<double>> overflow = Buffer<double>::Allocate(static_cast<size_t>(-1) / 4);
  ASSERT_FALSE(overflow.ok());
  EXPECT_EQ(overflow.error().code(), ErrorCode::kOutOfMemory);
  Result<ByteBuffer> huge = ByteBuffer::Allocate(static_cast<size_t>(-1) - 5);
  ASSERT_FALSE(huge.ok());
  EXPECT_EQ(huge.error().code(), ErrorCode::kOutOfMemory);
}

}  // namespace
}  // namespace sprat
