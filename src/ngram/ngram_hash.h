// Which row of each table a token reads: pure functions of the tokens and the config.
#ifndef SPRAT_NGRAM_NGRAM_HASH_H_
#define SPRAT_NGRAM_NGRAM_HASH_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ngram/ngram_config.h"
#include "ngram/ngram_kernels.h"

namespace sprat {

// The hash of one config.
//
//   id_i(t) = ( x_t + sum_{s=1}^{n-1} S_s(t) * (V^s mod M_i) ) mod M_i
//
// for table i of order n, where the look-back S_s(t) is x_{t-s} if that position exists and none of
// the positions t-s .. t-1 holds a token at which the look-back stops (end of sequence, ignored),
// and 0 otherwise. The current token is hashed as it is, whatever it is.
//
// Immutable; every method may be called from any thread at once.
class NgramHash {
 public:
  // `kernels` must be a table that this machine can run.
  NgramHash(const NgramConfig& config, const NgramKernels& kernels);

  // Writes id_i(t) to ids[t * G + i] for the tokens of one sequence that follow `context`, of which
  // only the last N - 1 tokens are read. ids.size() must be tokens.size() * G. Tokens are not
  // checked: one outside the vocabulary still gives ids inside the tables.
  void Ids(std::span<const uint32_t> context, std::span<const uint32_t> tokens,
           std::span<uint32_t> ids) const;

  // The same by the formula above, term by term, in 64-bit integers: what Ids is tested against.
  void IdsByDefinition(std::span<const uint32_t> context, std::span<const uint32_t> tokens,
                       std::span<uint32_t> ids) const;

  const NgramConfig& config() const { return config_; }

 private:
  // S_1 .. S_{N-1} of the position after `token`, from those of its own position, in place.
  void Step(uint32_t token, std::span<uint32_t> look_back) const;

  NgramConfig config_;
  const NgramKernels* kernels_;   // the scalar table where the sums do not fit the vector kernels
  std::vector<uint64_t> moduli_;  // HashPlan::modulus, G rounded up to 8
  std::vector<double> inverses_;  // HashPlan::inverse
  std::vector<uint64_t> powers_;  // HashPlan::power, (N - 1) x G rounded up to 8
};

}  // namespace sprat

#endif  // SPRAT_NGRAM_NGRAM_HASH_H_
