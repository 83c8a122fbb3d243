// Which kernel table runs on this machine.
#ifndef SPRAT_KERNELS_DISPATCH_H_
#define SPRAT_KERNELS_DISPATCH_H_

#include <span>
#include <string_view>

#include "kernels/kernels.h"
#include "sprat/result.h"

namespace sprat {

// The tables that this CPU and operating system can run, best first; the last is always "scalar".
std::span<const Kernels* const> RunnableKernels();

// The table called `name`; the best one if `name` is empty. A name that is unknown or that this
// machine cannot run is kInvalidArgument, listing what there is.
Result<const Kernels*> FindKernels(std::string_view name);

// FindKernels of the environment variable SPRAT_FORCE_ISA. Reads the environment at each call.
Result<const Kernels*> ActiveKernels();

}  // namespace sprat

#endif  // SPRAT_KERNELS_DISPATCH_H_
