// EngineOptions::device, read.
#ifndef SPRAT_ENGINE_DEVICE_CHOICE_H_
#define SPRAT_ENGINE_DEVICE_CHOICE_H_

#include <string_view>

#include "sprat/result.h"

namespace sprat {

struct DeviceChoice {
  bool cuda = false;  // a GPU, else the CPU
  int index = 0;      // which GPU, as CUDA numbers them
};

// "auto" and "cpu": the CPU; "cuda", "cuda:N": that GPU and nothing else.
// Errors: kInvalidArgument.
Result<DeviceChoice> ParseDevice(std::string_view device);

}  // namespace sprat

#endif  // SPRAT_ENGINE_DEVICE_CHOICE_H_
