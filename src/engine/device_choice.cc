#include "engine/device_choice.h"

#include <charconv>
#include <string>

namespace sprat {

Result<DeviceChoice> ParseDevice(std::string_view device) {
  constexpr std::string_view kNumbered{"cuda:"};
  if (device == "auto" || device == "cpu") return DeviceChoice{};
  if (device == "cuda") return DeviceChoice{.cuda = true};
  if (device.starts_with(kNumbered) && device.size() > kNumbered.size()) {
    DeviceChoice choice{.cuda = true};
    const char* end = device.data() + device.size();
    const auto read = std::from_chars(device.data() + kNumbered.size(), end, choice.index);
    if (read.ec == std::errc() && read.ptr == end && choice.index >= 0) return choice;
  }
  return Error(ErrorCode::kInvalidArgument,
               "device must be auto, cpu, cuda or cuda:N, got '" + std::string(device) + "'");
}

}  // namespace sprat
