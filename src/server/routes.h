// Which function answers which path, and what must hold before it is called.
#ifndef SPRAT_SERVER_ROUTES_H_
#define SPRAT_SERVER_ROUTES_H_

#include <optional>
#include <string_view>

#include "server/exchange.h"

namespace sprat::server {

struct Route {
  std::string_view path;
  std::string_view method;  // "GET", which also means HEAD, or "POST"
  ApiStyle style;
  bool needs_key;
  bool needs_model;  // 503 while models load, and while the server drains
  Task<Response> (*handler)(Exchange&);
};

// What is known when a request's head has been read.
struct Head {
  std::string_view method;
  std::string_view path;
  std::string_view authorization = {};
  std::string_view content_type = {};
};

// "/v1/models/x" for "/v1/models/x?y=z".
std::string_view PathOf(std::string_view target);

// The style in which errors about this path are told.
ApiStyle StyleOf(std::string_view path);

// The route of a path that takes this method, or else the path's first one; nullptr if there is
// none. "/v1/models/ID" is the route "/v1/models".
const Route* FindRoute(std::string_view path, std::string_view method);

// What is wrong with a request, as far as its head tells: 404, 405, 401, 415 or 503, with the
// headers that belong to it; nullopt if the route's handler may be called.
std::optional<Response> CheckHead(const Service& service, const Head& head);

// The answer to a request whose head was checked.
Task<Response> Handle(Exchange& exchange);

// Handlers, one file a style.
Task<Response> OpenAiEmbeddings(Exchange& exchange);
Task<Response> OpenAiModels(Exchange& exchange);
Task<Response> TeiEmbed(Exchange& exchange);
Task<Response> TeiSimilarity(Exchange& exchange);
Task<Response> TeiEmbedAll(Exchange& exchange);
Task<Response> TeiTokenize(Exchange& exchange);
Task<Response> TeiDecode(Exchange& exchange);
Task<Response> TeiInfo(Exchange& exchange);
Task<Response> Health(Exchange& exchange);
Task<Response> Ready(Exchange& exchange);
Task<Response> PrometheusMetrics(Exchange& exchange);
Task<Response> OpenApi(Exchange& exchange);
Task<Response> Page(Exchange& exchange);

// The documents behind the last two.
std::string_view OpenApiDocument();
std::string_view PageDocument();

}  // namespace sprat::server

#endif  // SPRAT_SERVER_ROUTES_H_
