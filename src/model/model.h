// The one interface of every model family, and what flows into it.
#ifndef SPRAT_MODEL_MODEL_H_
#define SPRAT_MODEL_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/matrix_view.h"
#include "sprat/result.h"

namespace sprat {

// B sequences of token ids laid end to end: sequence i is tokens[offsets[i] .. offsets[i + 1]).
// Nothing is padded, so nothing needs a mask. Reused between batches: clear() keeps the memory.
struct TokenBatch {
  std::vector<uint32_t> tokens;       // T ids
  std::vector<size_t> offsets = {0};  // B + 1, the first is 0, the last T

  size_t sequences() const { return offsets.size() - 1; }
  std::span<const uint32_t> Sequence(size_t i) const {
    return {tokens.data() + offsets[i], offsets[i + 1] - offsets[i]};
  }
  void Append(std::span<const uint32_t> ids) {
    tokens.insert(tokens.end(), ids.begin(), ids.end());
    offsets.push_back(tokens.size());
  }
  void clear() {
    tokens.clear();
    offsets.resize(1);
  }
};

class ThreadPool;

// What the vectors of a call should look like.
struct OutputForm {
  bool normalize = true;  // v / max(|v|, 1e-12), after the cut to the columns of the output
};

// Turns token ids into vectors. One implementation a family; one virtual call a batch.
// Threads: Embed may be called from one thread at a time (the batcher owns the device); the
// accessors from any.
class Model {
 public:
  virtual ~Model() = default;

  // Writes the vector of sequence i to out.Row(i): the first out.columns values of the pooled
  // vector (1 <= out.columns <= dimensions()), normalised after the cut if `form` says so.
  //   batch: B sequences; every id < vocabulary_rows(); each of at most max_sequence() tokens.
  //     An empty sequence is allowed where the family defines its vector (static models: zeros).
  //   out: B rows.
  // Promises: the bits of a row depend on its own sequence and the identity class only: not on the
  // other sequences, its position, the number of threads.
  // Errors: kInvalidArgument for an id or a length out of range, naming both; kDevice,
  // kOutOfMemory. After an error no row of `out` is meaningful and the model is usable.
  virtual Result<void> Embed(const TokenBatch& batch, const OutputForm& form,
                             MatrixView<float> out) = 0;

  // Writes what pooling would start from to out.Row(t) for each token t of the batch.
  //   out: T rows of dimensions() columns. Nothing is normalised.
  // Otherwise as Embed. Errors: also kUnsupported, for a model that keeps no vectors of tokens.
  virtual Result<void> EmbedEachToken(const TokenBatch& batch, MatrixView<float> out) {
    static_cast<void>(batch);
    static_cast<void>(out);
    return Error(ErrorCode::kUnsupported,
                 "vectors of single tokens are not to be had from this device");
  }

  virtual size_t dimensions() const = 0;       // columns of the full vector
  virtual size_t vocabulary_rows() const = 0;  // ids are below this
  virtual size_t max_sequence() const = 0;     // tokens in one sequence, special ones included

  // Which arithmetic makes the vectors, apart from the weights: "cpu-f32", ... (the arithmetic
  // tag). Two vectors are bit-equal only if both this and the model fingerprint are equal.
  virtual std::string arithmetic() const = 0;

  // The threads that Embed computes with, for work before and after it (tokenizing): to be used
  // only while Embed could be called. nullptr: the model has none to lend.
  virtual ThreadPool* pool() { return nullptr; }

  // Bytes of weights held in memory, packed copies included.
  virtual size_t weight_bytes() const = 0;
};

}  // namespace sprat

#endif  // SPRAT_MODEL_MODEL_H_
