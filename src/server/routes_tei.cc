// The routes of Text Embeddings Inference. They name no model: the first one answers.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "server/json_text.h"
#include "server/routes.h"

namespace sprat::server {
namespace {

struct Started {
  std::optional<ApiError> error;
  Pending pending;
};

// To the first model.
Started SubmitTo(Exchange& exchange, const TextInput& input, const EmbedOptions& options) {
  const ServedModel& model = exchange.service.models().front();
  Started started;
  started.error = HoldVectors(exchange, model, input.size(), options);
  if (!started.error.has_value()) started.pending = Submit(exchange, model, input, options);
  return started;
}

Started StartEmbed(Exchange& exchange) {
  Started started;
  auto parsed = ParseTeiEmbed(exchange.PaddedBody(), exchange.service.body_limits);
  if (ApiError* error = std::get_if<ApiError>(&parsed)) {
    started.error = std::move(*error);
    return started;
  }
  const TeiEmbedRequest& request = std::get<TeiEmbedRequest>(parsed);
  return SubmitTo(exchange, request.input, request.options);
}

Started StartSimilarity(Exchange& exchange) {
  Started started;
  auto parsed = ParseTeiSimilarity(exchange.PaddedBody(), exchange.service.body_limits);
  if (ApiError* error = std::get_if<ApiError>(&parsed)) {
    started.error = std::move(*error);
    return started;
  }
  const TeiSimilarityRequest& request = std::get<TeiSimilarityRequest>(parsed);
  TextInput input;
  input.texts = request.texts;
  EmbedOptions options = request.options;
  options.normalize = true;  // whatever the model's files say: the answer is a cosine
  return SubmitTo(exchange, input, options);
}

template <typename Start>
Task<Started> Begin(Exchange& exchange, Start start) {
  if (exchange.body.size() < kHeavyBodyBytes) co_return start(exchange);
  const auto run = [&] { return start(exchange); };
  co_return co_await OnPool(exchange, run);
}

std::string VectorsBody(const Embeddings& embeddings) {
  std::string body = "[";
  body.reserve(embeddings.values.size() * 13 + 2);
  for (size_t i = 0; i < embeddings.rows(); ++i) {
    if (i > 0) body += ',';
    AppendVector(embeddings.Row(i), body);
  }
  body += ']';
  return body;
}

// Rows are of unit norm or zero, so the dot product is the cosine.
std::string SimilaritiesBody(const Embeddings& embeddings) {
  std::string body = "[";
  const std::span<const float> source = embeddings.Row(0);
  for (size_t i = 1; i < embeddings.rows(); ++i) {
    double dot = 0.0;
    for (size_t k = 0; k < source.size(); ++k) {
      dot += static_cast<double>(source[k]) * static_cast<double>(embeddings.Row(i)[k]);
    }
    if (i > 1) body += ',';
    AppendNumber(static_cast<float>(std::clamp(dot, -1.0, 1.0)), body);
  }
  body += ']';
  return body;
}

std::string InfoBody(const Service& service) {
  const ServerOptions& options = service.options;
  const BatchOptions& batch = options.engine.batch;
  const ServedModel& model = service.models().front();
  const EngineInfo& info = model.engine.info();
  std::string body;
  const auto string = [&body](std::string_view name, std::string_view value) {
    body += body.empty() ? "{" : ",";
    AppendJsonString(name, body);
    body += ':';
    AppendJsonString(value, body);
  };
  const auto number = [&body](std::string_view name, size_t value) {
    body += ',';
    AppendJsonString(name, body);
    body += ':';
    AppendNumber(value, body);
  };
  string("model_id", model.id);
  body += R"(,"model_sha":null)";
  string("model_dtype", info.weights_dtype);
  body += R"(,"model_type":{"embedding":{"pooling":)";
  AppendJsonString(info.pooling, body);
  body += "}}";
  number("max_concurrent_requests", batch.max_queue_requests);
  // Clients split texts by it, and their types have no word for "no limit": then it is what a body
  // can hold.
  number("max_input_length", info.max_length > 0 ? info.max_length : options.max_body_bytes);
  number("max_batch_tokens", batch.max_tokens);
  number("max_batch_requests", batch.max_batch);
  number("max_client_batch_size", options.max_items);
  body += R"(,"auto_truncate":true)";
  number("tokenization_workers", options.threads);
  string("version", Version());
  number("dimensions", info.dimensions);
  string("arithmetic", info.arithmetic);
  body += '}';
  return body;
}

}  // namespace

Task<Response> TeiEmbed(Exchange& exchange) {
  Started started = co_await Begin(exchange, StartEmbed);
  if (started.error.has_value()) co_return ErrorResponse(ApiStyle::kTei, *started.error);
  Result<Embeddings> result = co_await Await(exchange, std::move(started.pending));
  if (!result.ok()) co_return ErrorResponse(ApiStyle::kTei, FromError(result.error()));
  const Embeddings& embeddings = result.value();
  const auto write = [&] { return VectorsBody(embeddings); };
  Response response;
  if (embeddings.values.size() >= kHeavyAnswerValues) {
    response.body = co_await OnPool(exchange, write);
  } else {
    response.body = write();
  }
  co_return response;
}

Task<Response> TeiSimilarity(Exchange& exchange) {
  Started started = co_await Begin(exchange, StartSimilarity);
  if (started.error.has_value()) co_return ErrorResponse(ApiStyle::kTei, *started.error);
  Result<Embeddings> result = co_await Await(exchange, std::move(started.pending));
  if (!result.ok()) co_return ErrorResponse(ApiStyle::kTei, FromError(result.error()));
  co_return Response{.body = SimilaritiesBody(result.value())};
}

Task<Response> TeiInfo(Exchange& exchange) {
  co_return Response{.body = InfoBody(exchange.service)};
}

}  // namespace sprat::server
