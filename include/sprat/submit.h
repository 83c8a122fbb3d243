// Asynchronous embedding: requests of many callers, joined so that one batch takes the device once.
// Standard library only.
#ifndef SPRAT_SUBMIT_H_
#define SPRAT_SUBMIT_H_

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>

#include "sprat/result.h"

namespace sprat {

struct Embeddings;

// What one batch was, for those who count.
struct BatchReport {
  size_t texts = 0;
  size_t tokens = 0;
  std::chrono::nanoseconds duration{0};
};

// How submitted requests are joined.
struct BatchOptions {
  // How long the first request of an idle period lets others join it. 0: it runs now if the device
  // is free, otherwise in the batch that starts when it becomes free.
  std::chrono::microseconds window{0};
  size_t max_batch = 64;      // requests of one text in a batch
  size_t max_tokens = 16384;  // tokens in a batch, or in a chunk of an array of texts
  size_t max_queue_requests = 1024;
  size_t max_queue_tokens = 1'000'000;
  // Whether an array keeps the device from its first chunk to its last instead of letting single
  // requests run between two chunks. Default: only with a window.
  std::optional<bool> array_hold = std::nullopt;
  // Called after each batch, from the thread that ran it; must not call the engine.
  std::function<void(const BatchReport&)> on_batch = nullptr;
};

// Where a submitted request's time went.
struct SubmitTimes {
  std::chrono::nanoseconds tokenization{0};
  std::chrono::nanoseconds queue{0};      // from acceptance to the start of its first batch
  std::chrono::nanoseconds inference{0};  // in batches
};

// Receives the answer to a request, once, on whichever thread has it, which may be the submitting
// one, before Submit returns. The device waits until it returns: it should pass the answer on and
// do no work. It may call Submit and Cancel, and nothing else of the engine.
using EmbedCallback = std::function<void(Result<Embeddings>, const SubmitTimes&)>;

// A request that was submitted: what Cancel needs. Copyable; an empty one cancels nothing. May
// outlive its engine.
class Ticket {
 public:
  Ticket() = default;

 private:
  friend class Engine;
  explicit Ticket(std::shared_ptr<void> request) : request_(std::move(request)) {}
  std::shared_ptr<void> request_;  // shared with the batcher, which needs it until its batch ends
};

// What waits for the device.
struct QueueDepth {
  size_t requests = 0;
  size_t tokens = 0;
};

}  // namespace sprat

#endif  // SPRAT_SUBMIT_H_
