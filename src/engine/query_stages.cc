#include "engine/query_stages.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

namespace sprat {
namespace {

using Clock = std::chrono::steady_clock;

double Microseconds(Clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

// One call on the CPU, or what the GPU says of its own; `batch` is one text. Requires the device.
Result<QueryStages> CallOnce(const LoadedModel& loaded, const TokenBatch& batch,
                             const OutputForm& output, std::vector<float>& row) {
  if (loaded.gpu != nullptr) {
    Result<gpu::QueryTimes> times = loaded.gpu->TimeQuery(batch, 0);
    if (!times.ok()) return std::move(times.error());
    const gpu::QueryTimes& t = times.value();
    return QueryStages{
        .copy_in = t.prepare, .enqueue = t.enqueue, .wake = t.wait, .copy_out = t.finish};
  }
  QueryStages stages;
  const Clock::time_point begin = Clock::now();
  Result<void> done = loaded.model->Embed(batch, output, {row.data(), 1, row.size()});
  if (!done.ok()) return std::move(done.error());
  stages.forward = Microseconds(Clock::now() - begin);
  return stages;
}

// Divides what the host waited for by the GPU's clock: the forward pass, pooling, waking up.
Result<void> DivideWaiting(gpu::GpuEncoder& encoder, const TokenBatch& batch,
                           std::vector<QueryStages>& all) {
  constexpr int kRuns{200};
  Result<double> seconds = encoder.TimeDevice(batch, kRuns);
  if (!seconds.ok()) return std::move(seconds.error());
  Result<double> pooling = encoder.TimePooling(batch, kRuns);
  if (!pooling.ok()) return std::move(pooling.error());
  for (QueryStages& stages : all) {
    const double computing = std::min(stages.wake, seconds.value() * 1e6);
    stages.pool = std::min(computing, pooling.value() * 1e6);
    stages.forward = computing - stages.pool;
    stages.wake -= computing;
  }
  return {};
}

}  // namespace

Result<std::vector<QueryStages>> TakeApart(const LoadedModel& loaded, const TextIds& text_ids,
                                           std::mutex& device, const Query& query, size_t calls) {
  std::vector<float> row(query.columns);
  std::string prompted;
  TokenBatch batch;
  std::vector<QueryStages> all;
  for (size_t i = 0; i < calls; ++i) {
    const Clock::time_point begin = Clock::now();
    batch.clear();
    Result<TokenizedLength> length =
        text_ids.Append(query.text, query.form, prompted, batch.tokens);
    if (!length.ok()) return std::move(length.error());
    batch.offsets.push_back(batch.tokens.size());
    const double tokenize = Microseconds(Clock::now() - begin);
    const std::lock_guard<std::mutex> turn(device);
    Result<QueryStages> stages = CallOnce(loaded, batch, query.output, row);
    if (!stages.ok()) return std::move(stages.error());
    stages.value().tokenize = tokenize;
    all.push_back(stages.value());
  }
  if (loaded.gpu == nullptr || all.empty()) return all;
  const std::lock_guard<std::mutex> turn(device);
  Result<void> divided = DivideWaiting(*loaded.gpu, batch, all);
  if (!divided.ok()) return std::move(divided.error());
  return all;
}

}  // namespace sprat
