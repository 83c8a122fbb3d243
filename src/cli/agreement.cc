#include "cli/agreement.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

namespace sprat::cli {
namespace {

constexpr size_t kNearest{10};
constexpr size_t kMaxQueries{200};
constexpr double kTie{1e-6};

double Dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += double{a[i]} * b[i];
  return sum;
}

double CosineOf(std::span<const float> a, std::span<const float> b) {
  const double lengths = std::sqrt(Dot(a, a) * Dot(b, b));
  if (lengths == 0) return Dot(a, a) == Dot(b, b) ? 1 : 0;
  return Dot(a, b) / lengths;
}

std::vector<double> Lengths(const Matrix& m) {
  std::vector<double> lengths(m.rows);
  for (size_t i = 0; i < m.rows; ++i) lengths[i] = std::sqrt(Dot(m.Row(i), m.Row(i)));
  return lengths;
}

// Cosines of row `query` with every row; its own is -infinity, as it is not its own neighbour.
std::vector<double> Scores(const Matrix& m, const std::vector<double>& lengths, size_t query) {
  std::vector<double> scores(m.rows);
  for (size_t i = 0; i < m.rows; ++i) {
    const double product = lengths[i] * lengths[query];
    scores[i] = product > 0 ? Dot(m.Row(query), m.Row(i)) / product : 0;
  }
  scores[query] = -INFINITY;
  return scores;
}

// The rows with the k highest scores, best first.
std::vector<size_t> Top(const std::vector<double>& scores, size_t k) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::partial_sort(order.begin(), order.begin() + static_cast<ptrdiff_t>(k), order.end(),
                    [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  order.resize(k);
  return order;
}

double Recall(const Matrix& mine, const Matrix& theirs, size_t k) {
  const std::vector<double> my_lengths = Lengths(mine);
  const std::vector<double> their_lengths = Lengths(theirs);
  const size_t queries = std::min(mine.rows, kMaxQueries);
  size_t hits = 0;
  for (size_t q = 0; q < queries; ++q) {
    const size_t row = q * mine.rows / queries;
    const std::vector<double> truth = Scores(theirs, their_lengths, row);
    const double kth = truth[Top(truth, k).back()];
    for (const size_t found : Top(Scores(mine, my_lengths, row), k)) {
      if (truth[found] >= kth - kTie) ++hits;
    }
  }
  return static_cast<double>(hits) / static_cast<double>(queries * k);
}

}  // namespace

Agreement Compare(const Matrix& mine, const Matrix& theirs) {
  Agreement result;
  result.min_cosine = 2;
  result.min_length_ratio = INFINITY;
  for (size_t i = 0; i < mine.rows; ++i) {
    const std::span<const float> a = mine.Row(i);
    const std::span<const float> b = theirs.Row(i);
    const double cosine = CosineOf(a, b);
    result.mean_cosine += cosine;
    if (std::isnan(cosine) || cosine < result.min_cosine) {
      result.min_cosine = cosine;
      result.worst_row = i;
    }
    for (size_t j = 0; j < a.size(); ++j) {
      result.max_difference = std::max(result.max_difference, std::abs(double{a[j]} - b[j]));
    }
    const double ratio = std::sqrt(Dot(a, a) / Dot(b, b));
    if (!std::isfinite(ratio) || ratio == 0) continue;
    result.min_length_ratio = std::min(result.min_length_ratio, ratio);
    result.max_length_ratio = std::max(result.max_length_ratio, ratio);
  }
  result.mean_cosine /= static_cast<double>(mine.rows);
  if (result.max_length_ratio == 0) result.min_length_ratio = result.max_length_ratio = 1;
  result.k = std::min(kNearest, mine.rows - 1);
  if (result.k > 0 && !std::isnan(result.min_cosine)) {
    result.recall = Recall(mine, theirs, result.k);
  }
  return result;
}

}  // namespace sprat::cli
