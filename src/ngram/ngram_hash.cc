#include "ngram/ngram_hash.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace sprat {
namespace {

constexpr size_t kLanes{HashPlan::kTableMultiple};

// Words of the buffer of windows: enough tokens for one call of a kernel, little enough for a
// stack.
constexpr size_t kWindowWords{1024};

}  // namespace

NgramHash::NgramHash(const NgramConfig& config, const NgramKernels& kernels)
    : config_(config), kernels_(&kernels) {
  const size_t padded = (config.tables() + kLanes - 1) / kLanes * kLanes;
  // A padding lane computes x mod 1 = 0; it is never stored.
  moduli_.assign(padded, 1);
  inverses_.assign(padded, 1.0);
  powers_.assign((config.max_order - 1) * padded, 0);
  for (uint32_t i = 0; i < config.tables(); ++i) {
    const uint64_t modulus = config.rows(i);
    moduli_[i] = modulus;
    inverses_[i] = 1.0 / static_cast<double>(modulus);
    uint64_t power = 1 % modulus;
    for (uint32_t s = 1; s < config.order(i); ++s) {
      power = power * (config.vocabulary % modulus) % modulus;  // both factors are below 2^32
      powers_[(s - 1) * padded + i] = power;
    }
  }
  const uint64_t quotient = uint64_t{config.max_order} * config.vocabulary;
  if (config.max_sum() >= HashPlan::kSumLimit || quotient >= HashPlan::kQuotientLimit) {
    kernels_ = &ScalarNgramKernels();
  }
}

void NgramHash::Step(uint32_t token, std::span<uint32_t> look_back) const {
  if (config_.Stops(token)) {
    std::fill(look_back.begin(), look_back.end(), 0);
    return;
  }
  std::copy_backward(look_back.begin(), look_back.end() - 1, look_back.end());
  look_back[0] = token;
}

void NgramHash::Ids(std::span<const uint32_t> context, std::span<const uint32_t> tokens,
                    std::span<uint32_t> ids) const {
  const size_t order = config_.max_order, tables = config_.tables();
  CHECK(ids.size() == tokens.size() * tables);
  const HashPlan plan{.tables = tables,
                      .order = order,
                      .modulus = moduli_.data(),
                      .inverse = inverses_.data(),
                      .power = powers_.data()};

  // A window is x_t, S_1(t) .. S_{N-1}(t).
  std::array<uint32_t, kWindowWords> windows;
  const size_t block = kWindowWords / order;
  std::array<uint32_t, kWindowWords> state{};
  const std::span<uint32_t> look_back(state.data(), order - 1);
  for (uint32_t token : context.last(std::min(context.size(), order - 1))) Step(token, look_back);
  for (size_t first = 0; first < tokens.size(); first += block) {
    const size_t count = std::min(block, tokens.size() - first);
    for (size_t t = 0; t < count; ++t) {
      uint32_t* window = windows.data() + t * order;
      window[0] = tokens[first + t];
      std::copy(look_back.begin(), look_back.end(), window + 1);
      Step(window[0], look_back);
    }
    kernels_->hash(plan, windows.data(), count, ids.data() + first * tables);
  }
}

void NgramHash::IdsByDefinition(std::span<const uint32_t> context, std::span<const uint32_t> tokens,
                                std::span<uint32_t> ids) const {
  CHECK(ids.size() == tokens.size() * config_.tables());
  std::vector<uint32_t> x(context.begin(), context.end());
  x.insert(x.end(), tokens.begin(), tokens.end());
  for (size_t k = 0; k < tokens.size(); ++k) {
    const size_t t = context.size() + k;
    for (uint32_t i = 0; i < config_.tables(); ++i) {
      const uint64_t modulus = config_.rows(i);
      uint64_t sum = x[t];
      uint64_t power = 1 % modulus;
      for (size_t s = 1; s < config_.order(i); ++s) {
        if (s > t || config_.Stops(x[t - s])) break;  // S_s and all that follow are 0
        power = power * (config_.vocabulary % modulus) % modulus;
        sum += x[t - s] * power;
      }
      ids[k * config_.tables() + i] = static_cast<uint32_t>(sum % modulus);
    }
  }
}

}  // namespace sprat
