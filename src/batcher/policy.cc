#include "batcher/policy.h"

#include <string>

namespace sprat {

Result<void> CheckLimits(const BatchLimits& limits) {
  const auto positive = [](const char* name, size_t value) -> Result<void> {
    if (value > 0) return {};
    return Error(ErrorCode::kInvalidArgument, std::string(name) + " must be at least 1, got 0");
  };
  if (limits.window < Clock::duration::zero()) {
    return Error(ErrorCode::kInvalidArgument, "window must not be negative");
  }
  if (Result<void> ok = positive("max_batch", limits.max_batch); !ok.ok()) return ok;
  if (Result<void> ok = positive("max_tokens", limits.max_tokens); !ok.ok()) return ok;
  if (Result<void> ok = positive("max_queue_requests", limits.max_queue_requests); !ok.ok()) {
    return ok;
  }
  return positive("max_queue_tokens", limits.max_queue_tokens);
}

std::optional<Clock::time_point> DueAt(const BatchLimits& limits, const Waiting& waiting) {
  if (waiting.requests == 0) return std::nullopt;
  const bool full = waiting.requests >= limits.max_batch || waiting.tokens >= limits.max_tokens;
  return full ? waiting.oldest : waiting.oldest + limits.window;
}

Result<void> Admit(const BatchLimits& limits, const Waiting& queued, size_t tokens) {
  if (queued.requests >= limits.max_queue_requests) {
    return Error(ErrorCode::kOverloaded, "the queue is full: " + std::to_string(queued.requests) +
                                             " requests are waiting, the limit is " +
                                             std::to_string(limits.max_queue_requests));
  }
  const bool fits =
      tokens <= limits.max_queue_tokens - queued.tokens && queued.tokens <= limits.max_queue_tokens;
  if (queued.requests > 0 && !fits) {
    return Error(ErrorCode::kOverloaded, "the queue is full: " + std::to_string(queued.tokens) +
                                             " tokens are waiting and this request has " +
                                             std::to_string(tokens) + ", the limit is " +
                                             std::to_string(limits.max_queue_tokens));
  }
  return {};
}

bool Room::Add(size_t tokens) {
  if (!empty_ && (texts_ == 0 || tokens > tokens_)) return false;
  empty_ = false;
  --texts_;
  tokens_ -= tokens < tokens_ ? tokens : tokens_;
  return true;
}

}  // namespace sprat
