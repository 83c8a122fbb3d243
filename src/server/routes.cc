#include "server/routes.h"

#include <algorithm>
#include <iterator>
#include <string>

namespace sprat::server {
namespace {

constexpr ApiStyle kOpenAi = ApiStyle::kOpenAi;
constexpr ApiStyle kTei = ApiStyle::kTei;

// Probes, metrics and the two documents need no key: they tell nothing about texts or keys.
constexpr Route kTable[] = {
    {"/v1/embeddings", "POST", kOpenAi, true, true, OpenAiEmbeddings},
    {"/v1/models", "GET", kOpenAi, true, true, OpenAiModels},
    {"/embed", "POST", kTei, true, true, TeiEmbed},
    {"/embed_all", "POST", kTei, true, true, TeiEmbedAll},
    {"/similarity", "POST", kTei, true, true, TeiSimilarity},
    {"/tokenize", "POST", kTei, true, true, TeiTokenize},
    {"/decode", "POST", kTei, true, true, TeiDecode},
    {"/info", "GET", kTei, true, true, TeiInfo},
    {"/health", "GET", kTei, false, false, Health},
    {"/ready", "GET", kTei, false, false, Ready},
    {"/metrics", "GET", kTei, false, false, PrometheusMetrics},
    {"/openapi.json", "GET", kTei, false, false, OpenApi},
    {"/", "GET", kTei, false, false, Page},
    {"/", "POST", kTei, true, true, TeiEmbed},  // what clients that know only an address call
};

bool EqualIgnoringCase(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
}

// application/json, with or without parameters; a body without a type is taken for JSON.
bool IsJson(std::string_view content_type) {
  std::string_view type = content_type.substr(0, content_type.find(';'));
  while (!type.empty() && (type.back() == ' ' || type.back() == '\t')) type.remove_suffix(1);
  return type.empty() || EqualIgnoringCase(type, "application/json");
}

bool MethodFits(const Route& route, std::string_view method) {
  return method == route.method || (route.method == "GET" && method == "HEAD");
}

std::string Allowed(const Route& route) {
  return route.method == "GET" ? "GET, HEAD" : std::string(route.method);
}

std::string RouteNames() {
  std::string names;
  for (const Route& route : kTable) {
    names +=
        (names.empty() ? "" : ", ") + std::string(route.method) + " " + std::string(route.path);
  }
  return names;
}

}  // namespace

std::string_view PathOf(std::string_view target) { return target.substr(0, target.find('?')); }

ApiStyle StyleOf(std::string_view path) { return path.starts_with("/v1/") ? kOpenAi : kTei; }

const Route* FindRoute(std::string_view path, std::string_view method) {
  if (path.starts_with("/v1/models/")) path = "/v1/models";
  const Route* found = nullptr;
  for (const Route& route : kTable) {
    if (route.path != path) continue;
    if (MethodFits(route, method)) return &route;
    if (found == nullptr) found = &route;
  }
  return found;
}

std::optional<Response> CheckHead(const Service& service, const Head& head) {
  const Route* const route = FindRoute(head.path, head.method);
  const ApiStyle style = StyleOf(head.path);
  if (route == nullptr) {
    return ErrorResponse(style, WithStatus(404, "no such route; there are " + RouteNames()));
  }
  if (!MethodFits(*route, head.method)) {
    Response response =
        ErrorResponse(style, WithStatus(405, "this route takes " + Allowed(*route)));
    response.headers = "Allow: " + Allowed(*route) + "\r\n";
    return response;
  }
  if (route->needs_key && !service.Allows(head.authorization)) {
    ApiError error = WithStatus(401, "a valid API key is needed: Authorization: Bearer KEY");
    error.code = "invalid_api_key";
    return ErrorResponse(style, error);
  }
  if (route->method == "POST" && !IsJson(head.content_type)) {
    return ErrorResponse(style, WithStatus(415, "the body must be application/json"));
  }
  if (route->needs_model && (!service.ready() || service.draining())) {
    return ErrorResponse(style, WithStatus(503, service.draining() ? "the server is shutting down"
                                                                   : "the models are loading"));
  }
  return std::nullopt;
}

Task<Response> Handle(Exchange& exchange) {
  return FindRoute(exchange.path, exchange.method)->handler(exchange);
}

}  // namespace sprat::server
