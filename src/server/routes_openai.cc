// POST /v1/embeddings, GET /v1/models, GET /v1/models/{id}.
#include <string>
#include <utility>

#include "server/json_text.h"
#include "server/routes.h"

namespace sprat::server {
namespace {

constexpr std::string_view kModelPrefix{"/v1/models/"};

// A request that was read and handed to its model, or what is wrong with it.
struct Started {
  std::optional<ApiError> error;
  Pending pending;
  bool base64 = false;
};

ApiError UnknownModel(const Service& service, std::string_view name) {
  if (name.empty()) {
    return BadRequest("'model' is needed: several models are served, " + service.ModelIds(),
                      "model");
  }
  ApiError error = WithStatus(404, "no such model is served; there are " + service.ModelIds());
  error.code = "model_not_found";
  error.param = "model";
  return error;
}

// Token ids must be of this model, and clients that send others do so without being asked.
std::optional<ApiError> CheckIds(const ServedModel& model, const TextInput& input) {
  const size_t vocabulary = model.engine.info().vocabulary;
  for (const uint32_t id : input.ids) {
    if (id < vocabulary) continue;
    return BadRequest("token id " + std::to_string(id) + " is not one of the " +
                          std::to_string(vocabulary) + " ids of model '" + model.id +
                          "'. If you sent texts: LangChain's OpenAIEmbeddings sends ids of "
                          "OpenAI's tokenizer unless check_embedding_ctx_length=False is set",
                      "input");
  }
  return std::nullopt;
}

Started Start(Exchange& exchange) {
  const Service& service = exchange.service;
  Started started;
  auto parsed = ParseOpenAi(exchange.PaddedBody(), service.body_limits);
  if (ApiError* error = std::get_if<ApiError>(&parsed)) {
    started.error = std::move(*error);
    return started;
  }
  const OpenAiRequest& request = std::get<OpenAiRequest>(parsed);
  const ServedModel* const model = service.FindModel(request.model);
  if (model == nullptr) {
    started.error = UnknownModel(service, request.model);
    return started;
  }
  started.error = CheckIds(*model, request.input);
  if (!started.error.has_value()) {
    started.error = HoldVectors(exchange, *model, request.input.size(), request.options);
  }
  if (started.error.has_value()) return started;
  started.base64 = request.base64;
  started.pending = Submit(exchange, *model, request.input, request.options);
  return started;
}

std::string Body(const Embeddings& embeddings, const std::string& model, bool base64,
                 size_t tokens) {
  std::string body;
  body.reserve(160 + embeddings.values.size() * (base64 ? 6 : 13) + embeddings.rows() * 64);
  body += R"({"object":"list","data":[)";
  for (size_t i = 0; i < embeddings.rows(); ++i) {
    body += i == 0 ? R"({"object":"embedding","index":)" : R"(,{"object":"embedding","index":)";
    AppendNumber(i, body);
    body += R"(,"embedding":)";
    if (base64) {
      AppendBase64(embeddings.Row(i), body);
    } else {
      AppendVector(embeddings.Row(i), body);
    }
    body += '}';
  }
  body += R"(],"model":)";
  AppendJsonString(model, body);
  body += R"(,"usage":{"prompt_tokens":)";
  AppendNumber(tokens, body);
  body += R"(,"total_tokens":)";
  AppendNumber(tokens, body);
  body += "}}";
  return body;
}

void AppendModel(const ServedModel& model, std::string& body) {
  body += R"({"id":)";
  AppendJsonString(model.id, body);
  body += R"(,"object":"model","created":0,"owned_by":"sprat"})";
}

// The bytes that %XX in a path stand for; a '%' without two digits stands for itself.
std::string PercentDecoded(std::string_view path) {
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    const char lower = static_cast<char>(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
  };
  std::string decoded;
  for (size_t i = 0; i < path.size(); ++i) {
    const bool escape =
        path[i] == '%' && i + 2 < path.size() && digit(path[i + 1]) >= 0 && digit(path[i + 2]) >= 0;
    if (!escape) {
      decoded += path[i];
      continue;
    }
    decoded += static_cast<char>(digit(path[i + 1]) * 16 + digit(path[i + 2]));
    i += 2;
  }
  return decoded;
}

// The answer to "/v1/models/NAME".
Response OneModel(const Service& service, std::string_view path) {
  const std::string name = PercentDecoded(path.substr(kModelPrefix.size()));
  const ServedModel* const model = name.empty() ? nullptr : service.FindModel(name);
  if (model == nullptr) {
    return ErrorResponse(ApiStyle::kOpenAi, UnknownModel(service, name.empty() ? "?" : name));
  }
  Response response;
  AppendModel(*model, response.body);
  return response;
}

std::string ModelList(const Service& service) {
  std::string body = R"({"object":"list","data":[)";
  for (const ServedModel& model : service.models()) {
    if (&model != &service.models().front()) body += ',';
    AppendModel(model, body);
  }
  body += "]}";
  return body;
}

}  // namespace

Task<Response> OpenAiEmbeddings(Exchange& exchange) {
  const auto start = [&exchange] { return Start(exchange); };
  Started started;
  if (exchange.body.size() >= kHeavyBodyBytes) {
    started = co_await OnPool(exchange, start);
  } else {
    started = start();
  }
  if (started.error.has_value()) co_return ErrorResponse(ApiStyle::kOpenAi, *started.error);
  const std::string& id = started.pending.model->id;
  const bool base64 = started.base64;
  Result<Embeddings> result = co_await Await(exchange, std::move(started.pending));
  if (!result.ok()) co_return ErrorResponse(ApiStyle::kOpenAi, FromError(result.error()));
  const Embeddings& embeddings = result.value();
  const auto write = [&] { return Body(embeddings, id, base64, exchange.tokens); };
  Response response;
  if (embeddings.values.size() >= kHeavyAnswerValues) {
    response.body = co_await OnPool(exchange, write);
  } else {
    response.body = write();
  }
  co_return response;
}

Task<Response> OpenAiModels(Exchange& exchange) {
  const Service& service = exchange.service;
  if (exchange.path.starts_with(kModelPrefix)) co_return OneModel(service, exchange.path);
  co_return Response{.body = ModelList(service)};
}

}  // namespace sprat::server
