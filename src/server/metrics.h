// Counters and histograms in the text format of Prometheus.
//
// Written here rather than taken from prometheus-cpp: the set is fixed, so that counting is one
// relaxed atomic addition and needs no map, no lock and no second HTTP server.
#ifndef SPRAT_SERVER_METRICS_H_
#define SPRAT_SERVER_METRICS_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sprat::server {

// Counts values by the first bound that is not below them. Any thread may add.
class Histogram {
 public:
  // bounds: ascending; values above the last count only in +Inf.
  explicit Histogram(std::span<const double> bounds)
      : bounds_(bounds), counts_(bounds.size() + 1) {}

  void Add(double value);

  // Appends name_bucket, name_sum and name_count lines; `labels` is "" or `route="/x"`.
  void Write(std::string_view name, std::string_view labels, std::string& out) const;

  uint64_t count() const;

 private:
  const std::span<const double> bounds_;
  std::vector<std::atomic<uint64_t>> counts_;  // of each bucket alone
  std::atomic<double> sum_{0.0};
};

inline constexpr double kSecondsBounds[] = {1e-5,   2.5e-5, 5e-5, 1e-4,  2.5e-4, 5e-4, 1e-3,
                                            2.5e-3, 5e-3,   0.01, 0.025, 0.05,   0.1,  0.25,
                                            0.5,    1.0,    2.5,  5.0,   10.0,   15.0};
inline constexpr double kBatchBounds[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048};
inline constexpr double kTokenBounds[] = {8,    16,   32,   64,   128,   256,   512,
                                          1024, 2048, 4096, 8192, 16384, 32768, 65536};

// The routes by which requests are counted; whatever else is asked for counts as "other", so that
// clients cannot make labels.
inline constexpr std::string_view kRoutes[] = {
    "/v1/embeddings", "/v1/models", "/embed", "/embed_all", "/similarity",   "/tokenize", "/decode",
    "/info",          "/health",    "/ready", "/metrics",   "/openapi.json", "/",         "other"};
inline constexpr int kStatuses[] = {200, 204, 400, 401, 404, 405, 408, 413, 415,
                                    422, 429, 431, 499, 500, 501, 503, 505};

// The indices of the above; "other" and 500 for what is not in the list.
size_t RouteIndex(std::string_view route);
size_t StatusIndex(int status);

// What is now.
struct Gauges {
  size_t queue_depth = 0;  // requests that wait, in all models
  size_t connections = 0;  // that are open
  size_t held_bytes = 0;   // of bodies and answers
};

// Everything the server counts. Any thread may add.
struct Metrics {
  std::array<std::array<std::atomic<uint64_t>, std::size(kStatuses)>, std::size(kRoutes)>
      requests{};
  Histogram duration{kSecondsBounds};
  Histogram queue{kSecondsBounds};
  Histogram tokenization{kSecondsBounds};
  Histogram inference{kSecondsBounds};
  Histogram batch_size{kBatchBounds};
  Histogram batch_tokens{kTokenBounds};
  std::atomic<uint64_t> tokens{0};
  std::atomic<uint64_t> rejected{0};   // 429
  std::atomic<uint64_t> not_held{0};   // of these, for want of bytes for body or answer
  std::atomic<uint64_t> cancelled{0};  // client gone before the answer
  std::atomic<uint64_t> fallbacks{0};  // texts that the CPU answered for a lost GPU

  void CountRequest(size_t route, int status, std::chrono::duration<double> duration_of);
  std::string Write(const Gauges& now) const;
};

// Bytes of this process in memory, from /proc/self/statm; 0 if it cannot be read.
uint64_t ResidentBytes();

}  // namespace sprat::server

#endif  // SPRAT_SERVER_METRICS_H_
