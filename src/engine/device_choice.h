// EngineOptions::device, read.
#ifndef SPRAT_ENGINE_DEVICE_CHOICE_H_
#define SPRAT_ENGINE_DEVICE_CHOICE_H_

#include <string_view>

#include "sprat/result.h"

namespace sprat {

struct DeviceChoice {
  bool cuda = false;  // try a GPU
  bool cpu = true;    // the CPU will do
  int index = 0;      // which GPU, as CUDA numbers them
};

// "auto": a GPU or the CPU; "cpu"; "cuda", "cuda:N": that GPU and nothing else.
// Errors: kInvalidArgument.
Result<DeviceChoice> ParseDevice(std::string_view device);

}  // namespace sprat

#endif  // SPRAT_ENGINE_DEVICE_CHOICE_H_
