#include "engine/device_choice.h"

#include <gtest/gtest.h>

namespace sprat {
namespace {

TEST(ParseDevice, NamesOfDevices) {
  const auto read = [](std::string_view name) { return ParseDevice(name).value(); };
  EXPECT_FALSE(read("auto").cuda);
  EXPECT_FALSE(read("cpu").cuda);
  EXPECT_TRUE(read("cuda").cuda);
  EXPECT_EQ(read("cuda").index, 0);
  EXPECT_TRUE(read("cuda:12").cuda);
  EXPECT_EQ(read("cuda:12").index, 12);
}

TEST(ParseDevice, RefusesWhatIsNoDevice) {
  for (const char* name :
       {"", "gpu", "cuda:", "cuda:x", "cuda:1x", "cuda:-1", "cuda:99999999999"}) {
    const Result<DeviceChoice> choice = ParseDevice(name);
    ASSERT_FALSE(choice.ok()) << name;
    EXPECT_EQ(choice.error().message(),
              "device must be auto, cpu, cuda or cuda:N, got '" + std::string(name) + "'");
  }
}

}  // namespace
}  // namespace sprat
