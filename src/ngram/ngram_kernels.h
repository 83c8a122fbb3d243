// The operations of the n-gram layer that exist once for each instruction set.
//
// A table of its own beside kernels/kernels.h: its operations (hashing, E4M3, a bf16 projection)
// have no other user. The files scalar.cc, avx2.cc, avx512.cc and avx512_bf16.cc include only
// intrinsics and this header, and keep all but what is declared here in an unnamed namespace.
#ifndef SPRAT_NGRAM_NGRAM_KERNELS_H_
#define SPRAT_NGRAM_NGRAM_KERNELS_H_

#include <cstddef>
#include <cstdint>

namespace sprat {

// The hash of one config, laid out for vectors over tables. See NgramHash.
struct HashPlan {
  static constexpr size_t kTableMultiple{8};
  // The vector kernels divide in double precision: exact for sums below 2^52 whose quotient by the
  // modulus is below 2^31.
  static constexpr uint64_t kSumLimit{uint64_t{1} << 52};
  static constexpr uint64_t kQuotientLimit{uint64_t{1} << 31};

  size_t tables;            // G
  size_t order;             // N
  const uint64_t* modulus;  // M_i, G rounded up to a multiple of 8; 1 in the padding
  const double* inverse;    // 1 / M_i, likewise
  const uint64_t* power;    // V^s mod M_i at [(s - 1) * G rounded up + i]; 0 for s >= n and padding
};

// One panel of the projection: kPanel output columns for a block of tokens.
//
//   y[t][c] = word_scale * y[t][c] + sum_scale * sum_{k < K} x[t][k] * w[k][c]
//
// Both operands are bf16, K is even, sums are f32. The sum over k runs upwards in pairs, the same
// way for every token count and every t, so a token's bits do not depend on its neighbours.
struct Projection {
  static constexpr size_t kPanel{48};

  const uint16_t* x;  // tokens x K, row stride K
  const uint16_t* w;  // (K / 2) x kPanel x 2: the pair w[2p][c], w[2p + 1][c] side by side
  size_t depth;       // K, even
  float* y;           // tokens x columns, row stride y_stride: the word rows, then the result
  size_t y_stride;
  size_t tokens;
  size_t columns;  // of this panel: 1 .. kPanel; none past it is read or written in y
  float word_scale;
  float sum_scale;
};

struct NgramKernels {
  const char* name;

  // ids[t * G + i] = (x_t + sum_s S_s(t) power[s][i]) mod M_i for each window x_t, S_1 .. S_{N-1}.
  //   windows: tokens x N; ids: tokens x G, nothing past them is written.
  void (*hash)(const HashPlan& plan, const uint32_t* windows, size_t tokens, uint32_t* ids);

  // out[i] = bf16(scale * value(codes[i])), rounded to nearest even: OCP E4M3 (no infinities, NaN
  // is 0x7f and 0xff). n elements, none past them read or written. scale * 2^8 must not overflow.
  void (*decode_e4m3)(const uint8_t* codes, float scale, size_t n, uint16_t* out);

  // See Projection.
  void (*project)(const Projection& projection);
};

// The table to read.
const NgramKernels& ScalarNgramKernels();

// Defined by the files of the instruction sets; called through a table that the machine can run.
extern const NgramKernels kNgramAvx2;
extern const NgramKernels kNgramAvx512;
void ProjectAvx512Bf16(const Projection& projection);

}  // namespace sprat

#endif  // SPRAT_NGRAM_NGRAM_KERNELS_H_
