#include "kernels/dispatch.h"
#include "sprat/engine.h"

namespace sprat {

std::string_view Version() { return SPRAT_VERSION; }

std::vector<std::string> AvailableKernels() {
  std::vector<std::string> names;
  for (const Kernels* table : RunnableKernels()) names.emplace_back(table->name);
  return names;
}

}  // namespace sprat
