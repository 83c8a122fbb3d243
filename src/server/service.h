// What all connections share: the models, the keys, the counters, and whether requests are taken.
#ifndef SPRAT_SERVER_SERVICE_H_
#define SPRAT_SERVER_SERVICE_H_

#include <atomic>
#include <boost/asio/thread_pool.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpu_budget.h"
#include "server/api_keys.h"
#include "server/byte_budget.h"
#include "server/metrics.h"
#include "server/request_body.h"
#include "server/server.h"
#include "sprat/engine.h"

namespace sprat::server {

struct ServedModel {
  std::string id;
  Engine engine;
  size_t prefix_tokens = 0;  // special tokens that the tokenizer puts before and after a text
  size_t suffix_tokens = 0;
};

// How many threads read large bodies and write large answers: half the CPUs, from 1 to 8. Beside an
// encoder on the CPU one would do, for it needs many times their time; beside a GPU or a static
// model they are what limits lists of texts.
size_t HeavyThreads(size_t cpus);

class Service {
 public:
  explicit Service(const ServerOptions& given)
      : options(given),
        body_limits{.items = given.max_items, .json_depth = given.max_json_depth},
        held(given.max_held_bytes) {}

  const ServerOptions options;
  const BodyLimits body_limits;
  Metrics metrics;
  ByteBudget held;  // what requests hold in bodies and answers

  // For work that would hold up a network thread: large bodies, large answers.
  std::optional<boost::asio::thread_pool> heavy{std::in_place, HeavyThreads(CpuBudget())};

  // For vectors of tokens, which take the device without a queue of their own.
  std::optional<boost::asio::thread_pool> token_vectors{std::in_place, 1};
  std::atomic<size_t> token_requests{0};  // that wait for it or use it

  // Opens and warms up the models; from its success on, ready() holds and models() is constant. If
  // the server is told to end meanwhile, it stops after the model it is at, and ready() never
  // holds.
  Result<void> Load();

  // Ends the models: whatever they still had is answered. For when no thread serves any more.
  void Close() {
    ready_.store(false, std::memory_order_release);
    models_.clear();
  }

  bool ready() const { return ready_.load(std::memory_order_acquire); }
  bool draining() const { return draining_.load(std::memory_order_acquire); }
  void Drain() { draining_.store(true, std::memory_order_release); }

  // Requires ready().
  const std::vector<ServedModel>& models() const { return models_; }
  // The model of this name; "" names the only one. nullptr if there is none.
  const ServedModel* FindModel(std::string_view name) const;
  // "'a', 'b'": for messages.
  std::string ModelIds() const;
  size_t QueueDepth() const;

  // How many connections are open: counted by the network threads, told by /metrics.
  size_t connections() const { return connections_.load(std::memory_order_relaxed); }
  void CountConnection(bool opened) {
    if (opened) {
      connections_.fetch_add(1, std::memory_order_relaxed);
    } else {
      connections_.fetch_sub(1, std::memory_order_relaxed);
    }
  }

  // Reads the key file, if there is one. After an error the keys are what they were.
  Result<void> ReadKeys();
  // Whether a request with this Authorization header may pass.
  bool Allows(std::string_view authorization) const;

 private:
  Result<ServedModel> Open(const ModelSource& source);

  std::atomic<bool> ready_{false};
  std::atomic<bool> draining_{false};
  std::atomic<size_t> connections_{0};
  std::vector<ServedModel> models_;
  mutable std::mutex keys_mutex_;
  // Guarded by keys_mutex_; shared with the requests that compare with it while it is replaced.
  std::shared_ptr<const ApiKeys> keys_;
};

}  // namespace sprat::server

#endif  // SPRAT_SERVER_SERVICE_H_
