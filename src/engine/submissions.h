// Requests of many callers on one model: what a batch of the micro-batcher means to the engine.
#ifndef SPRAT_ENGINE_SUBMISSIONS_H_
#define SPRAT_ENGINE_SUBMISSIONS_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "batcher/micro_batcher.h"
#include "engine/sorted_batches.h"
#include "model/model.h"
#include "sprat/engine.h"
#include "sprat/submit.h"

namespace sprat {

// One request: token ids in, rows out.
struct EmbedJob final : Job {
  // out: `tokens` and `dimensions` say the shape, `values` has room for all rows.
  EmbedJob(std::vector<uint32_t> token_ids, bool normalize_rows, Embeddings rows)
      : Job(rows.tokens),
        ids(std::move(token_ids)),
        normalize(normalize_rows),
        out(std::move(rows)) {}

  const std::vector<uint32_t> ids;  // of all texts, end to end
  const bool normalize;
  Embeddings out;
  std::chrono::nanoseconds tokenization{0};
  size_t next_id = 0;  // of the next text to run: a job's texts run in order
};

// What the model's family says about its batches.
struct BatchRule {
  size_t inline_tokens = 0;   // see BatchLimits
  size_t call_tokens = 4096;  // of one call of the model, see LoadedModel::batch_tokens
};

// What a batcher may do, from what a caller may ask for.
BatchLimits ToLimits(const BatchOptions& options, size_t inline_tokens);

// The batcher of one model. Its thread starts with the first request. Any thread may call.
class Submissions {
 public:
  // model, device: outlive this object; `device` is held while the model runs a batch.
  Submissions(Model& model, std::mutex& device, const BatchOptions& options, const BatchRule& rule)
      : model_(model), device_(device), options_(options), rule_(rule) {}

  // Hands the job that `make` returns, a Result<std::shared_ptr<EmbedJob>>, to the batcher, or its
  // error to the callback. Returns what Cancel needs; nullptr if there is nothing to cancel. If the
  // queue is full, no job is made: under overload that is what most requests cost.
  template <typename Make>
  std::shared_ptr<Job> Submit(const Make& make, EmbedCallback callback) {
    Result<void> room = HasRoom();
    return Accept(room.ok() ? make() : std::move(room.error()), std::move(callback));
  }
  void Cancel(const std::shared_ptr<Job>& job);
  QueueDepth queued() const;

 private:
  MicroBatcher* Batcher();  // nullptr if there is no thread to be had
  Result<void> HasRoom();
  std::shared_ptr<Job> Accept(Result<std::shared_ptr<EmbedJob>> made, EmbedCallback callback);
  Result<size_t> Run(std::span<const Slice> batch);
  Result<void> RunAlike(std::span<const Slice> batch, size_t columns, bool normalize);

  Model& model_;
  std::mutex& device_;
  const BatchOptions options_;
  const BatchRule rule_;

  SortedBatches alike_;  // of the thread that runs a batch

  mutable std::mutex start_mutex_;
  std::unique_ptr<MicroBatcher> batcher_;  // guarded by start_mutex_ until it is set; set once.
                                           // Last, so that it ends before what its thread uses
};

}  // namespace sprat

#endif  // SPRAT_ENGINE_SUBMISSIONS_H_
