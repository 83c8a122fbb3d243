// Which table of n-gram kernels runs on this machine.
#ifndef SPRAT_NGRAM_DISPATCH_H_
#define SPRAT_NGRAM_DISPATCH_H_

#include <span>
#include <string_view>

#include "ngram/ngram_kernels.h"
#include "sprat/result.h"

namespace sprat {

// The tables that this machine can run, best first; the last is always "scalar".
std::span<const NgramKernels* const> RunnableNgramKernels();

// The table called `name`; the best one if `name` is empty. A name that is unknown or that this
// machine cannot run is kInvalidArgument, listing what there is.
Result<const NgramKernels*> FindNgramKernels(std::string_view name);

// FindNgramKernels of the environment variable SPRAT_FORCE_ISA. Reads the environment at each call.
Result<const NgramKernels*> ActiveNgramKernels();

}  // namespace sprat

#endif  // SPRAT_NGRAM_DISPATCH_H_
