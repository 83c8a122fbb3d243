// libFuzzer target: any bytes as a safetensors file. It must open, with every tensor inside the
// file, or be refused with a message.
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "model/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size_bytes) {
  const int file = memfd_create("fuzz", MFD_CLOEXEC);
  CHECK(file >= 0);
  CHECK(write(file, bytes, size_bytes) == static_cast<ssize_t>(size_bytes));
  {
    sprat::Result<sprat::TensorFile> opened =
        sprat::TensorFile::OpenFile(fmt::format("/proc/self/fd/{}", file));
    CHECK(opened.ok() || !opened.error().message().empty());
    if (opened.ok()) {
      for (const auto& [name, tensor] : opened.value().tensors()) {
        std::vector<float> values(tensor.elements());
        if (sprat::CopyAsF32(tensor, values).ok()) CHECK(values.size() == tensor.elements());
      }
    }
  }
  close(file);
  return 0;
}
