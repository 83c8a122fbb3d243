// What the machine is, for info and bench.
#ifndef SPRAT_CLI_MACHINE_H_
#define SPRAT_CLI_MACHINE_H_

#include <cstddef>
#include <string>

namespace sprat::cli {

std::string CpuName();       // as /proc/cpuinfo names it; "unknown CPU" if it does not
size_t UsableCpus();         // that this process may run on
size_t MemoryBytes();        // of the machine
size_t PeakResidentBytes();  // of this process so far

// "86.4 MB": three significant digits, decimal units.
std::string HumanBytes(size_t bytes);

}  // namespace sprat::cli

#endif  // SPRAT_CLI_MACHINE_H_
