// The HTTP server: OpenAI and Text Embeddings Inference routes over engines that batch.
#ifndef SPRAT_SERVER_SERVER_H_
#define SPRAT_SERVER_SERVER_H_

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sprat/engine.h"
#include "sprat/result.h"

namespace sprat::server {

// A model to serve: `id` is what requests call it.
struct ModelSource {
  std::string id;
  std::filesystem::path directory;
};

struct ServerOptions {
  std::vector<ModelSource> models;  // at least one; ids differ
  EngineOptions engine;             // of every model

  std::string host = "127.0.0.1";  // an address or a name; "" serves no TCP
  uint16_t port = 8080;            // 0: any free one, which is logged
  std::filesystem::path uds;       // a Unix socket; "" serves none
  std::filesystem::path tls_cert;  // PEM, with the chain; TLS on TCP if both are given
  std::filesystem::path tls_key;
  std::filesystem::path api_keys;  // one key a line; "" asks for none
  std::string cors_origin;         // "*" or one origin; "" sends no CORS headers
  size_t threads = 1;              // network threads
  bool access_log = false;         // a line of JSON on standard output for each request
  bool warm_up = true;             // run each model once before /health says 200

  size_t max_body_bytes = size_t{8} << 20;
  size_t max_held_bytes = size_t{512} << 20;  // bodies and answers in flight, all together
  size_t max_items = 2048;
  size_t max_json_depth = 16;
  size_t max_header_bytes = size_t{16} << 10;
  size_t max_connections = 1024;
  std::chrono::milliseconds idle_timeout{60'000};  // between two requests, and to take an answer
  std::chrono::milliseconds read_timeout{10'000};  // from a request's first byte to its last
  std::chrono::milliseconds drain_timeout{30'000};
};

// Listens, then opens and warms up the models, then serves until SIGTERM or SIGINT; what was
// accepted is answered before it returns. SIGHUP reads the API keys again. Tells systemd when it is
// ready (NOTIFY_SOCKET). Blocks the calling thread; at most one at a time in a process.
// Errors: kInvalidArgument for options that contradict each other; kIo naming the address that
// cannot be listened on or the TLS file; those of Engine::Open, naming the model.
Result<void> Serve(const ServerOptions& options);

}  // namespace sprat::server

#endif  // SPRAT_SERVER_SERVER_H_
