// How far two sets of vectors of the same texts agree.
#ifndef SPRAT_CLI_AGREEMENT_H_
#define SPRAT_CLI_AGREEMENT_H_

#include <cstddef>
#include <optional>

#include "cli/npy.h"

namespace sprat::cli {

struct Agreement {
  double min_cosine = 0;  // over the rows; two zero rows agree (1), one zero row does not (0)
  double mean_cosine = 0;
  size_t worst_row = 0;         // where min_cosine is
  double max_difference = 0;    // of any two values
  double min_length_ratio = 0;  // |mine| / |theirs| over the rows whose lengths are not zero
  double max_length_ratio = 0;  // both 1 if there is none
  // Over queries: the share of the k nearest other rows by cosine among mine that are among the k
  // nearest in theirs too, where a row counts that is as near in theirs as the k-th to within 1e-6
  // (equal texts tie). k is 10, or rows - 1 if that is less; nullopt with fewer than two rows.
  std::optional<double> recall;
  size_t k = 0;
};

// Compares matrices of equal shape, at least one row. Queries are at most 200 rows, evenly spaced.
// Sums in double. NaN anywhere makes min_cosine NaN.
Agreement Compare(const Matrix& mine, const Matrix& theirs);

}  // namespace sprat::cli

#endif  // SPRAT_CLI_AGREEMENT_H_
