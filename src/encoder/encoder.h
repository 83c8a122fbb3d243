// BERT-family sentence encoders on the CPU, f32.
// Devlin et al. 2018, arXiv:1810.04805; BertModel in Hugging Face transformers; Pooling and
// Normalize in sentence-transformers.
#ifndef SPRAT_ENCODER_ENCODER_H_
#define SPRAT_ENCODER_ENCODER_H_

#include <memory>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/matrix_view.h"
#include "base/thread_pool.h"
#include "encoder/activation_dump.h"
#include "encoder/chunks.h"
#include "encoder/weights.h"
#include "kernels/kernels.h"
#include "model/config.h"
#include "model/model.h"

namespace sprat {

struct EncoderOptions {
  Pooling pooling = Pooling::kMean;
  size_t max_sequence = 0;  // tokens a sequence, 1 to EncoderConfig::positions; 0: all positions
  size_t threads = 0;       // 0: CpuBudget()
};

// See Model for what Embed promises. Embed works in chunks of a few hundred tokens, whatever the
// size of the batch; its scratch is sized at creation, so that Embed allocates nothing once it has
// seen a batch of as many sequences.
// Numerics: docs/numerics.md. No sum depends on the neighbours, the chunk or the threads.
class Encoder : public Model {
 public:
  // Packs the weights that `source` gives for the table of ActiveKernels(); views those that stay.
  // Errors: those of ActiveKernels and the source; kInvalidArgument for options out of range;
  // kOutOfMemory.
  static Result<std::unique_ptr<Encoder>> Create(const EncoderConfig& config,
                                                 const EncoderOptions& options,
                                                 const TensorSource& source);

  Result<void> Embed(const TokenBatch& batch, const OutputForm& form,
                     MatrixView<float> out) override;
  Result<void> EmbedEachToken(const TokenBatch& batch, MatrixView<float> out) override;

  size_t dimensions() const override { return config_.hidden; }
  size_t vocabulary_rows() const override { return weights_.words.rows; }
  size_t max_sequence() const override { return options_.max_sequence; }
  std::string arithmetic() const override { return "cpu-f32"; }
  ThreadPool* pool() override { return pool_.get(); }
  size_t weight_bytes() const override { return weights_.size_bytes; }

  size_t threads() const { return pool_->size(); }
  size_t parameters() const { return weights_.parameters; }
  const Kernels& kernels() const { return kernels_; }

 private:
  // The activations of one chunk of T tokens.
  struct Scratch {
    Buffer<float> memory;
    float* x;          // (T, H)
    float* qkv;        // (T, 3H)
    float* heads;      // (T, H)
    float* y;          // (T, H)
    float* ffn;        // (kFfnRows, F)
    float* attention;  // Kernels::attention_scratch
  };

  // The sequences of one chunk, their T tokens numbered from 0, and the calling thread's part in
  // the work on them.
  struct Work {
    const TokenBatch& batch;
    Chunk chunk;
    const Scratch& s;
    float* attention;  // of this thread
    Member& member;

    size_t FirstToken(size_t sequence) const {
      return batch.offsets[sequence] - batch.offsets[chunk.first];
    }
    size_t tokens() const { return FirstToken(chunk.end); }
  };

  Encoder(const EncoderConfig& config, const EncoderOptions& options, const Kernels& kernels,
          std::unique_ptr<ThreadPool> pool, EncoderWeights weights);
  Result<void> AllocateScratch();
  Result<void> CheckBatch(const TokenBatch& batch) const;

  // Where the results of a batch go.
  struct Target {
    bool pooled = true;  // a row a sequence; false: a row a token
    OutputForm form;     // of pooled rows
    MatrixView<float> out;
  };
  Result<void> Run(const TokenBatch& batch, const Target& target);

  // The forward pass, in the order of execution: each is a step, see Member::ForEach.
  void Forward(const Work& work, const Target& target);
  void EmbedTokens(const Work& work) const;
  void Layer(const LayerWeights& w, const Work& work) const;
  void Attend(const Work& work) const;
  void AttendItems(Share share, const Work& work) const;
  void Linear(const PackedWeights& w, MatrixView<const float> x, Epilogue epilogue,
              MatrixView<float> y, const Work& work) const;
  void AddLayerNorm(MatrixView<const float> y, const NormWeights& norm, MatrixView<float> x,
                    const Work& work) const;
  void Pool(const Work& work, const OutputForm& form, MatrixView<float> out) const;
  void CopyTokens(const Work& work, MatrixView<float> out) const;

  EncoderConfig config_;
  EncoderOptions options_;
  const Kernels& kernels_;
  std::unique_ptr<ThreadPool> pool_;
  EncoderWeights weights_;
  std::vector<Scratch> scratch_;        // one a thread, and one for all together
  std::vector<float> position_weight_;  // 1, 2, ... : of Pooling::kWeightedMean
  ChunkPlan plan_;
  ActivationDump dump_;
};

}  // namespace sprat

#endif  // SPRAT_ENCODER_ENCODER_H_
