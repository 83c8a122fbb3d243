// The routes of Text Embeddings Inference that deal in tokens: /tokenize, /decode, /embed_all.
#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/json_text.h"
#include "server/routes.h"

namespace sprat::server {
namespace {

// Requests for vectors of tokens that may be there at a time: each holds its own memory.
constexpr size_t kMostTokenRequests{64};
// Tokens of texts that are computed together; a longer text is alone.
constexpr size_t kTurnTokens{512};

// One text's tokens: [{"id":..,"text":..,"special":..,"start":null,"stop":null},...]. The engine
// does not know where in the text a token came from, which the format allows to say.
void AppendTokens(const Tokens& tokens, size_t prefix, size_t suffix, bool with_special,
                  std::string& body) {
  const size_t size = tokens.ids.size();
  bool first = true;
  body += '[';
  for (size_t i = 0; i < size; ++i) {
    const bool special = i < prefix || i + suffix >= size;
    if (special && !with_special) continue;
    body += first ? R"({"id":)" : R"(,{"id":)";
    first = false;
    AppendNumber(size_t{tokens.ids[i]}, body);
    body += R"(,"text":)";
    AppendJsonString(tokens.texts[i], body);
    body += special ? R"(,"special":true)" : R"(,"special":false)";
    body += R"(,"start":null,"stop":null})";
  }
  body += ']';
}

Response Tokenized(Exchange& exchange) {
  auto parsed = ParseTeiTokenize(exchange.PaddedBody(), exchange.service.body_limits);
  if (const ApiError* error = std::get_if<ApiError>(&parsed)) {
    return ErrorResponse(ApiStyle::kTei, *error);
  }
  const TeiTokenizeRequest& request = std::get<TeiTokenizeRequest>(parsed);
  const ServedModel& model = exchange.service.models().front();
  std::string body = "[";
  for (const std::string_view text : request.texts) {
    Result<Tokens> tokens = model.engine.Tokenize(text, request.options, 0);
    if (!tokens.ok()) return ErrorResponse(ApiStyle::kTei, FromError(tokens.error()));
    constexpr size_t kTokenBytes{112};  // its string and id, and about 75 of JSON
    std::optional<ApiError> none_left =
        HoldAnswer(exchange, body.size() + tokens.value().ids.size() * kTokenBytes);
    if (none_left.has_value()) return ErrorResponse(ApiStyle::kTei, *none_left);
    if (body.size() > 1) body += ',';
    AppendTokens(tokens.value(), model.prefix_tokens, model.suffix_tokens,
                 request.add_special_tokens, body);
    none_left = HoldAnswer(exchange, body.size());
    if (none_left.has_value()) return ErrorResponse(ApiStyle::kTei, *none_left);
  }
  body += ']';
  return Response{.body = std::move(body)};
}

// The texts of the ids: ["..",..].
Response Decoded(Exchange& exchange) {
  auto parsed = ParseTeiDecode(exchange.PaddedBody(), exchange.service.body_limits);
  if (const ApiError* error = std::get_if<ApiError>(&parsed)) {
    return ErrorResponse(ApiStyle::kTei, *error);
  }
  const TeiDecodeRequest& request = std::get<TeiDecodeRequest>(parsed);
  const Engine& engine = exchange.service.models().front().engine;
  const std::span<const uint32_t> ids = request.input.ids;
  std::string body = "[";
  for (size_t i = 0; i < request.input.size(); ++i) {
    const size_t begin = request.input.offsets[i];
    Result<std::string> text = engine.Decode(
        ids.subspan(begin, request.input.offsets[i + 1] - begin), request.skip_special_tokens);
    if (!text.ok()) return ErrorResponse(ApiStyle::kTei, FromError(text.error()));
    if (i > 0) body += ',';
    AppendJsonString(text.value(), body);
    const std::optional<ApiError> none_left = HoldAnswer(exchange, body.size());
    if (none_left.has_value()) return ErrorResponse(ApiStyle::kTei, *none_left);
  }
  body += ']';
  return Response{.body = std::move(body)};
}

// The ids of the texts as the model will see them, end to end. Counts what was cut.
// Errors: those of Tokenize; kTooLong for a text beyond the model's length that must not be cut.
Result<void> ReadIds(const Engine& engine, const EmbedOptions& options, TextInput& input,
                     size_t& truncated) {
  input.offsets.assign(1, 0);
  for (size_t i = 0; i < input.texts.size(); ++i) {
    const std::string name = "text " + std::to_string(i);
    Result<Tokens> tokens = engine.Tokenize(input.texts[i], options);
    if (!tokens.ok()) return std::move(tokens.error()).In(name);
    if (tokens.value().truncated && !options.truncate) {
      return Error(ErrorCode::kTooLong, name + " has more than the " +
                                            std::to_string(engine.info().max_length) +
                                            " tokens of this model, and truncate is false");
    }
    truncated += tokens.value().truncated ? 1 : 0;
    input.ids.insert(input.ids.end(), tokens.value().ids.begin(), tokens.value().ids.end());
    input.offsets.push_back(input.ids.size());
  }
  return {};
}

// One text's vectors: [[x,y,...],...], a row a token.
void AppendRows(std::span<const float> values, size_t columns, std::string& body) {
  body += '[';
  for (size_t at = 0; at < values.size(); at += columns) {
    if (at > 0) body += ',';
    AppendVector(values.subspan(at, columns), body);
  }
  body += ']';
}

// What the request asks for as ids, or what is wrong with it.
Parsed<TextInput> EmbedAllInput(Exchange& exchange, const Engine& engine) {
  auto parsed = ParseTeiEmbedAll(exchange.PaddedBody(), exchange.service.body_limits);
  if (ApiError* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  TeiEmbedRequest& request = std::get<TeiEmbedRequest>(parsed);
  if (!request.input.is_tokens) {
    Result<void> read = ReadIds(engine, request.options, request.input, exchange.truncated);
    if (!read.ok()) return FromError(read.error());
  }
  const size_t limit = exchange.service.options.engine.batch.max_tokens;
  if (request.input.ids.size() > limit) {
    return WithStatus(413, "the inputs have " + std::to_string(request.input.ids.size()) +
                               " tokens together, expected at most " + std::to_string(limit) +
                               ": this route answers with a vector for each");
  }
  std::optional<ApiError> none_left =
      HoldVectors(exchange, exchange.service.models().front(), request.input.ids.size(), {});
  if (none_left.has_value()) return std::move(*none_left);
  return std::move(request.input);
}

// Appends the vectors of the texts [first, end).
Result<void> AppendTurn(const Engine& engine, const TextInput& input, size_t first, size_t end,
                        std::string& body) {
  const size_t begin = input.offsets[first];
  std::vector<size_t> offsets;
  for (size_t i = first; i <= end; ++i) offsets.push_back(input.offsets[i] - begin);
  Result<std::vector<float>> rows =
      engine.EmbedEachToken(std::span(input.ids).subspan(begin, offsets.back()), offsets);
  if (!rows.ok()) {
    return std::move(rows.error()).In("of the texts from " + std::to_string(first) + " on");
  }
  const size_t columns = engine.info().dimensions;
  for (size_t i = 0; i + 1 < offsets.size(); ++i) {
    if (first + i > 0) body += ',';
    AppendRows(std::span(rows.value())
                   .subspan(offsets[i] * columns, (offsets[i + 1] - offsets[i]) * columns),
               columns, body);
  }
  return {};
}

// The answer of /embed_all. Between two turns it looks whether the client is still there, and
// others that wait for the device get theirs.
Response EachToken(Exchange& exchange, const std::atomic<bool>& gone) {
  const auto begin = SteadyClock::now();
  exchange.times.queue = begin - exchange.received;
  const Engine& engine = exchange.service.models().front().engine;
  Parsed<TextInput> parsed = EmbedAllInput(exchange, engine);
  if (const ApiError* error = std::get_if<ApiError>(&parsed)) {
    return ErrorResponse(ApiStyle::kTei, *error);
  }
  const TextInput& input = std::get<TextInput>(parsed);
  exchange.texts = input.offsets.size() - 1;
  exchange.tokens = input.ids.size();
  const auto tokenized = SteadyClock::now();
  exchange.times.tokenization = tokenized - begin;
  std::string body = "[";
  for (size_t first = 0; first < exchange.texts;) {
    if (gone.load(std::memory_order_relaxed)) {
      return ErrorResponse(ApiStyle::kTei,
                           FromError(Error(ErrorCode::kCancelled, "the client went away")));
    }
    size_t end = first + 1;
    while (end < exchange.texts && input.offsets[end + 1] - input.offsets[first] <= kTurnTokens) {
      ++end;
    }
    Result<void> appended = AppendTurn(engine, input, first, end, body);
    if (!appended.ok()) return ErrorResponse(ApiStyle::kTei, FromError(appended.error()));
    first = end;
  }
  body += ']';
  exchange.times.inference = SteadyClock::now() - tokenized;
  exchange.embedded = true;
  exchange.service.metrics.tokens.fetch_add(exchange.tokens, std::memory_order_relaxed);
  return Response{.body = std::move(body)};
}

// A request that is counted as long as it lives.
class Counted {
 public:
  explicit Counted(std::atomic<size_t>& count)
      : count_(count), others_(count.fetch_add(1, std::memory_order_relaxed)) {}
  ~Counted() { count_.fetch_sub(1, std::memory_order_relaxed); }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

  size_t others() const { return others_; }

 private:
  std::atomic<size_t>& count_;
  const size_t others_;
};

}  // namespace

Task<Response> TeiTokenize(Exchange& exchange) {
  const auto tokenize = [&exchange] { return Tokenized(exchange); };
  if (exchange.body.size() < kHeavyBodyBytes) co_return tokenize();
  co_return co_await OnPool(exchange, tokenize);
}

Task<Response> TeiDecode(Exchange& exchange) {
  const auto decode = [&exchange] { return Decoded(exchange); };
  if (exchange.body.size() < kHeavyBodyBytes) co_return decode();
  co_return co_await OnPool(exchange, decode);
}

Task<Response> TeiEmbedAll(Exchange& exchange) {
  Service& service = exchange.service;
  const Counted request(service.token_requests);
  if (request.others() >= kMostTokenRequests) {
    co_return ErrorResponse(ApiStyle::kTei,
                            FromError(Error(ErrorCode::kOverloaded,
                                            std::to_string(kMostTokenRequests) +
                                                " requests for vectors of tokens are waiting")));
  }
  const auto gone = std::make_shared<std::atomic<bool>>(false);
  const PeerWatch watch(exchange, [gone] { gone->store(true, std::memory_order_relaxed); });
  const auto compute = [&exchange, gone] { return EachToken(exchange, *gone); };
  co_return co_await OnPool(exchange, *service.token_vectors, compute);
}

}  // namespace sprat::server
