// Probes, metrics and documents: what needs no model and no key.
#include <string>

#include "server/routes.h"

namespace sprat::server {
namespace {

Response State(bool good, const Service& service) {
  if (good) return {.body = R"({"status":"ok"})"};
  return ErrorResponse(
      ApiStyle::kTei,
      WithStatus(503, service.ready() ? "the server is shutting down" : "the models are loading"));
}

}  // namespace

Task<Response> Health(Exchange& exchange) {
  co_return State(exchange.service.ready(), exchange.service);
}

Task<Response> Ready(Exchange& exchange) {
  const Service& service = exchange.service;
  co_return State(service.ready() && !service.draining(), service);
}

Task<Response> PrometheusMetrics(Exchange& exchange) {
  const Service& service = exchange.service;
  co_return Response{.content_type = "text/plain; version=0.0.4; charset=utf-8",
                     .body = service.metrics.Write({.queue_depth = service.QueueDepth(),
                                                    .connections = service.connections(),
                                                    .held_bytes = service.held.held()})};
}

Task<Response> OpenApi(Exchange& exchange) {
  static_cast<void>(exchange);
  co_return Response{.body = std::string(OpenApiDocument())};
}

Task<Response> Page(Exchange& exchange) {
  static_cast<void>(exchange);
  co_return Response{.content_type = "text/html; charset=utf-8",
                     .body = std::string(PageDocument()),
                     .headers =
                         "Content-Security-Policy: default-src 'none'; connect-src 'self'; "
                         "script-src 'unsafe-inline'; style-src 'unsafe-inline'\r\n"};
}

}  // namespace sprat::server
