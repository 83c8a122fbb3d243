#include "server/metrics.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iterator>

namespace sprat::server {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

void Header(std::string_view name, std::string_view help, std::string_view type, std::string& out) {
  fmt::format_to(std::back_inserter(out), "# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, type);
}

void Single(std::string_view name, std::string_view help, std::string_view type, uint64_t value,
            std::string& out) {
  Header(name, help, type, out);
  fmt::format_to(std::back_inserter(out), "{} {}\n", name, value);
}

void Distribution(std::string_view name, std::string_view help, const Histogram& histogram,
                  std::string& out) {
  Header(name, help, "histogram", out);
  histogram.Write(name, "", out);
}

}  // namespace

void Histogram::Add(double value) {
  const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  counts_[static_cast<size_t>(bucket)].fetch_add(1, kRelaxed);
  sum_.fetch_add(value, kRelaxed);
}

uint64_t Histogram::count() const {
  uint64_t total = 0;
  for (const auto& count : counts_) total += count.load(kRelaxed);
  return total;
}

void Histogram::Write(std::string_view name, std::string_view labels, std::string& out) const {
  const std::string_view comma = labels.empty() ? "" : ",";
  uint64_t below = 0;
  for (size_t i = 0; i < bounds_.size(); ++i) {
    below += counts_[i].load(kRelaxed);
    fmt::format_to(std::back_inserter(out), "{}_bucket{{{}{}le=\"{}\"}} {}\n", name, labels, comma,
                   bounds_[i], below);
  }
  below += counts_.back().load(kRelaxed);
  const std::string braces = labels.empty() ? "" : "{" + std::string(labels) + "}";
  fmt::format_to(std::back_inserter(out),
                 "{0}_bucket{{{1}{2}le=\"+Inf\"}} {3}\n{0}_sum{4} {5}\n{0}_count{4} {3}\n", name,
                 labels, comma, below, braces, sum_.load(kRelaxed));
}

size_t RouteIndex(std::string_view route) {
  const auto* const found = std::find(std::begin(kRoutes), std::end(kRoutes) - 1, route);
  return static_cast<size_t>(found - std::begin(kRoutes));
}

size_t StatusIndex(int status) {
  const auto* found = std::find(std::begin(kStatuses), std::end(kStatuses), status);
  if (found == std::end(kStatuses))
    found = std::find(std::begin(kStatuses), std::end(kStatuses), 500);
  return static_cast<size_t>(found - std::begin(kStatuses));
}

void Metrics::CountRequest(size_t route, int status, std::chrono::duration<double> duration_of) {
  requests[route][StatusIndex(status)].fetch_add(1, kRelaxed);
  if (status == 429) rejected.fetch_add(1, kRelaxed);
  if (status == 499) cancelled.fetch_add(1, kRelaxed);
  duration.Add(duration_of.count());
}

std::string Metrics::Write(const Gauges& now) const {
  std::string out;
  Header("sprat_requests_total", "Requests answered, by route and status.", "counter", out);
  for (size_t route = 0; route < std::size(kRoutes); ++route) {
    for (size_t status = 0; status < std::size(kStatuses); ++status) {
      const uint64_t count = requests[route][status].load(kRelaxed);
      if (count == 0) continue;
      fmt::format_to(std::back_inserter(out),
                     "sprat_requests_total{{route=\"{}\",status=\"{}\"}} {}\n", kRoutes[route],
                     kStatuses[status], count);
    }
  }
  Distribution("sprat_request_duration_seconds", "From a request's last byte to its answer.",
               duration, out);
  Distribution("sprat_queue_duration_seconds", "From acceptance to the start of the first batch.",
               queue, out);
  Distribution("sprat_tokenization_duration_seconds", "Tokenizing a request's texts.", tokenization,
               out);
  Distribution("sprat_inference_duration_seconds", "The time of a request in batches.", inference,
               out);
  Distribution("sprat_batch_size", "Texts in a batch.", batch_size, out);
  Distribution("sprat_batch_tokens", "Tokens in a batch.", batch_tokens, out);
  Single("sprat_queue_depth", "Requests that wait for the device.", "gauge", now.queue_depth, out);
  Single("sprat_connections", "Open connections.", "gauge", now.connections, out);
  Single("sprat_held_bytes", "Bytes of bodies and answers in flight.", "gauge", now.held_bytes,
         out);
  Single("sprat_tokens_total", "Tokens embedded.", "counter", tokens.load(kRelaxed), out);
  Single("sprat_rejected_total", "Requests refused for want of room, with 429.", "counter",
         rejected.load(kRelaxed), out);
  Single("sprat_held_rejected_total", "Of these, for want of bytes for their body or answer.",
         "counter", not_held.load(kRelaxed), out);
  Single("sprat_cancelled_total", "Requests dropped because their client went away.", "counter",
         cancelled.load(kRelaxed), out);
  Single("sprat_fallback_texts_total", "Texts that the CPU answered because the GPU was lost.",
         "counter", fallbacks.load(kRelaxed), out);
  Single("process_resident_memory_bytes", "Resident memory.", "gauge", ResidentBytes(), out);
  return out;
}

uint64_t ResidentBytes() {
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  unsigned long long pages = 0;
  const int read = std::fscanf(file, "%*u %llu", &pages);
  std::fclose(file);
  return read == 1 ? pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) : 0;
}

}  // namespace sprat::server
