#include "cli/timing.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace sprat::cli {

double Percentile(const std::vector<double>& ascending, double p) {
  const auto n = static_cast<double>(ascending.size());
  const auto rank = static_cast<size_t>(std::ceil(p / 100 * n));
  return ascending[std::clamp<size_t>(rank, 1, ascending.size()) - 1];
}

Spread Summarize(std::vector<double> times_us) {
  std::sort(times_us.begin(), times_us.end());
  const double sum = std::accumulate(times_us.begin(), times_us.end(), 0.0);
  return {.min_us = times_us.front(),
          .p50_us = Percentile(times_us, 50),
          .p99_us = Percentile(times_us, 99),
          .mean_us = sum / static_cast<double>(times_us.size()),
          .calls = times_us.size()};
}

}  // namespace sprat::cli
