// Repeated timing of one piece of work.
#ifndef SPRAT_CLI_TIMING_H_
#define SPRAT_CLI_TIMING_H_

#include <cstddef>
#include <vector>

namespace sprat::cli {

struct Spread {
  double min_us = 0;
  double p50_us = 0;
  double p99_us = 0;
  double mean_us = 0;
  size_t calls = 0;
};

// The p-th percentile by the nearest rank: the smallest value that at least p % of all do not
// exceed. Requires ascending values, at least one, and 0 < p <= 100.
double Percentile(const std::vector<double>& ascending, double p);

// Requires at least one time.
Spread Summarize(std::vector<double> times_us);

}  // namespace sprat::cli

#endif  // SPRAT_CLI_TIMING_H_
