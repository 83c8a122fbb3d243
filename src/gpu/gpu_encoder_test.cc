// A machine without a GPU, in builds with and without CUDA parts alike.
#include "gpu/gpu_encoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpu/random_model_for_test.h"

namespace sprat::gpu {
namespace {

using ::testing::HasSubstr;

TEST(GpuEncoder, WithoutADeviceItSaysWhatIsMissing) {
  const Result<std::string> device = DescribeDevice(0);
  if (device.ok()) GTEST_SKIP() << "there is a GPU: " << device.value();
  EXPECT_EQ(device.error().code(), ErrorCode::kDevice);
  EXPECT_THAT(device.error().message(), HasSubstr("no CUDA device"));

  const RandomModel model = MakeRandomModel(1, 10, 1);
  const Result<std::unique_ptr<GpuEncoder>> opened =
      OpenGpuEncoder(model.config, model.Reader(), {.max_sequence = 16});
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code(), ErrorCode::kDevice);
  EXPECT_THAT(opened.error().message(), HasSubstr("no CUDA device"));
}

}  // namespace
}  // namespace sprat::gpu
