#include "server/service.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

namespace sprat::server {
namespace {

// One short text and one of full length, so that the first request finds memory touched and threads
// started, whatever its size.
Result<void> WarmUp(const Engine& engine) {
  std::string longest;
  for (size_t i = 0; i < engine.info().max_length && i < 512; ++i) longest += "warm ";
  for (const std::string_view text : {std::string_view("warm up"), std::string_view(longest)}) {
    Result<Embeddings> embedded = engine.EmbedOne(text);
    if (!embedded.ok()) return std::move(embedded.error()).In("warming up");
  }
  return {};
}

// How many special tokens the tokenizer puts before and after a text: those that "" consists of,
// split where a text begins.
Result<void> CountSpecialTokens(ServedModel& model) {
  const EmbedOptions bare{.prompt = ""};  // not the model's default prompt
  Result<Tokens> none = model.engine.Tokenize("", bare);
  if (!none.ok()) return std::move(none.error());
  Result<Tokens> one = model.engine.Tokenize("a", bare);
  if (!one.ok()) return std::move(one.error());
  const std::vector<uint32_t>& special = none.value().ids;
  const std::vector<uint32_t>& text = one.value().ids;
  const auto split = std::mismatch(special.begin(), special.end(), text.begin(), text.end()).first;
  model.prefix_tokens = static_cast<size_t>(split - special.begin());
  model.suffix_tokens = static_cast<size_t>(special.end() - split);
  return {};
}

}  // namespace

size_t HeavyThreads(size_t cpus) { return std::clamp<size_t>(cpus / 2, 1, 8); }

Result<ServedModel> Service::Open(const ModelSource& source) {
  EngineOptions engine_options = options.engine;
  engine_options.batch.on_batch = [this](const BatchReport& batch) {
    metrics.batch_size.Add(static_cast<double>(batch.texts));
    metrics.batch_tokens.Add(static_cast<double>(batch.tokens));
  };
  engine_options.on_fallback = [this, id = source.id](const Fallback& fallback) {
    if (fallback.first) {
      spdlog::error(
          "'{}': the GPU is lost, the CPU answers from here on, with other last digits: {}", id,
          fallback.why);
    }
    metrics.fallbacks.fetch_add(fallback.texts, std::memory_order_relaxed);
  };
  Result<Engine> engine = Engine::Open(source.directory, engine_options);
  if (!engine.ok()) return std::move(engine.error());
  if (options.warm_up) {
    if (Result<void> warm = WarmUp(engine.value()); !warm.ok()) return std::move(warm.error());
  }
  ServedModel model{.id = source.id, .engine = std::move(engine).value()};
  if (Result<void> counted = CountSpecialTokens(model); !counted.ok()) {
    return std::move(counted.error());
  }
  return model;
}

Result<void> Service::Load() {
  for (const ModelSource& source : options.models) {
    if (draining()) return {};
    Result<ServedModel> model = Open(source);
    if (!model.ok()) return std::move(model.error()).In("model '" + source.id + "'");
    models_.push_back(std::move(model).value());
  }
  if (!draining()) ready_.store(true, std::memory_order_release);
  return {};
}

const ServedModel* Service::FindModel(std::string_view name) const {
  if (name.empty()) return models_.size() == 1 ? &models_.front() : nullptr;
  for (const ServedModel& model : models_) {
    if (model.id == name) return &model;
  }
  return nullptr;
}

std::string Service::ModelIds() const {
  std::string ids;
  for (const ServedModel& model : models_) ids += (ids.empty() ? "'" : ", '") + model.id + "'";
  return ids;
}

size_t Service::QueueDepth() const {
  if (!ready()) return 0;
  size_t requests = 0;
  for (const ServedModel& model : models_) requests += model.engine.queued().requests;
  return requests;
}

Result<void> Service::ReadKeys() {
  if (options.api_keys.empty()) return {};
  Result<ApiKeys> keys = ApiKeys::Read(options.api_keys);
  if (!keys.ok()) return std::move(keys.error());
  auto fresh = std::make_shared<const ApiKeys>(std::move(keys).value());
  const std::lock_guard<std::mutex> lock(keys_mutex_);
  keys_ = std::move(fresh);
  return {};
}

bool Service::Allows(std::string_view authorization) const {
  if (options.api_keys.empty()) return true;
  std::shared_ptr<const ApiKeys> keys;
  {
    const std::lock_guard<std::mutex> lock(keys_mutex_);
    keys = keys_;
  }
  return keys->Allow(authorization);
}

}  // namespace sprat::server
