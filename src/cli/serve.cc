// sprat serve: the HTTP server.
#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/model_path.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "cli/values.h"
#include "server/server.h"

namespace sprat::cli {
namespace {

constexpr uint64_t kMaxBodyBytes{uint64_t{1} << 40};
constexpr size_t kLongestSocketPath{107};  // sun_path of unix(7)

struct Options {
  server::ServerOptions server;
  ModelOptions model;               // of every model
  std::vector<std::string> models;  // [ALIAS=]MODEL
  double window_ms = 0.0;
  double idle_timeout_s = 60.0;
  double read_timeout_s = 10.0;
  bool no_warm_up = false;
  bool array_hold = false;
  bool no_array_hold = false;
};

// A directory's last name: "all-MiniLM-L6-v2" for ".../all-MiniLM-L6-v2/".
std::string LastName(const std::filesystem::path& directory) {
  const std::filesystem::path whole = std::filesystem::absolute(directory).lexically_normal();
  return (whole.has_filename() ? whole.filename() : whole.parent_path().filename()).string();
}

// "ALIAS=MODEL", or MODEL, which is then called by its directory's name.
Result<server::ModelSource> ResolveModel(const std::optional<std::string>& argument) {
  std::optional<std::string> model = argument;
  std::string alias;
  std::error_code ignored;
  if (model.has_value() && !std::filesystem::exists(*model, ignored)) {
    if (const size_t at = model->find('='); at != std::string::npos) {
      alias = model->substr(0, at);
      model = model->substr(at + 1);
    }
  }
  Result<std::filesystem::path> directory = FindModel(model, Env);
  if (!directory.ok()) return std::move(directory.error());
  if (alias.empty()) alias = LastName(directory.value());
  return server::ModelSource{.id = alias, .directory = std::move(directory).value()};
}

// What a model's argument must be, whatever models there are.
std::string CheckModel(const std::string& argument) {
  if (argument.empty()) return "is empty";
  std::error_code ignored;
  const bool no_alias = argument[0] == '=' && !std::filesystem::exists(argument, ignored);
  return no_alias ? "'" + argument + "': the alias is empty" : "";
}

std::string CheckSocketPath(const std::string& path) {
  if (path.empty()) return "is empty";
  if (path.size() <= kLongestSocketPath) return {};
  return fmt::format("a socket's path has at most {} bytes, got {}", kLongestSocketPath,
                     path.size());
}

std::string CheckOrigin(const std::string& origin) {
  const size_t scheme = origin.find("://");
  const bool is_origin = scheme != std::string::npos && scheme > 0 && scheme + 3 < origin.size() &&
                         origin.find_first_of("/ \r\n", scheme + 3) == std::string::npos;
  if (origin == "*" || is_origin) return {};
  return fmt::format("must be '*', scheme://host or scheme://host:port, got '{}'", origin);
}

// Options that are right one by one and wrong together. Models that are not found are no wrong
// usage: RunServer says so.
void RefuseContradictions(const Options& options) {
  if (options.server.host.empty() && options.server.uds.empty()) {
    throw CLI::ValidationError("--host", "is empty and there is no --uds: nothing to listen on");
  }
  std::set<std::string> ids;
  for (const std::string& model : options.models) {
    Result<server::ModelSource> source = ResolveModel(model);
    if (source.ok() && !ids.insert(source.value().id).second) {
      throw CLI::ValidationError(
          "--model", fmt::format("two models are called '{}'; give one another name: ALIAS=MODEL",
                                 source.value().id));
    }
  }
}

std::chrono::milliseconds Milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000.0));
}

Result<int> RunServer(Options options) {
  server::ServerOptions& server = options.server;
  if (options.models.empty()) {
    Result<server::ModelSource> only = ResolveModel(std::nullopt);
    if (!only.ok()) return std::move(only.error());
    server.models.push_back(std::move(only).value());
  }
  for (const std::string& model : options.models) {
    Result<server::ModelSource> source = ResolveModel(model);
    if (!source.ok()) return std::move(source.error());
    server.models.push_back(std::move(source).value());
  }
  server.engine = ToEngineOptions(options.model);
  BatchOptions& batch = server.engine.batch;
  batch.window = std::chrono::microseconds(static_cast<int64_t>(options.window_ms * 1000.0));
  if (options.array_hold) batch.array_hold = true;
  if (options.no_array_hold) batch.array_hold = false;
  server.idle_timeout = Milliseconds(options.idle_timeout_s);
  server.read_timeout = Milliseconds(options.read_timeout_s);
  server.warm_up = !options.no_warm_up;
  Result<void> served = server::Serve(server);
  if (!served.ok()) return std::move(served.error());
  return 0;
}

void AddModels(CLI::App& command, Options& options) {
  const auto group = [](CLI::Option* option) { option->group("Model"); };
  group(command
            .add_option("-m,--model", options.models,
                        "What to serve: a directory or a name, as in the other commands, with "
                        "an alias or without. May be given several times; a request's \"model\" "
                        "chooses")
            ->type_name("[ALIAS=]MODEL")
            ->check(CLI::Validator(CheckModel, ""))
            ->allow_extra_args(false));
  group(command
            .add_option("--max-length", options.model.engine.max_length,
                        "Cut texts after N tokens, special ones included. Default: the model's")
            ->type_name("N")
            ->transform(WholeNumber(1)));
  AddEngineOptions(command, options.model);
  group(command.add_flag("--no-warm-up", options.no_warm_up,
                         "Be ready without having run each model once"));
}

void AddNetwork(CLI::App& command, server::ServerOptions& server) {
  const auto group = [](CLI::Option* option) { option->group("Network"); };
  group(
      command
          .add_option("--host", server.host, "The address to listen on; \"\" for none, with --uds")
          ->capture_default_str());
  group(command.add_option("--port", server.port, "0 takes a free one and logs it")
            ->transform(WholeNumber(0, UINT16_MAX))
            ->capture_default_str());
  group(command.add_option("--uds", server.uds, "A Unix socket to listen on as well")
            ->type_name("PATH")
            ->check(CLI::Validator(CheckSocketPath, "")));
  CLI::Option* cert =
      command.add_option("--tls-cert", server.tls_cert, "PEM, with the chain: serves HTTPS");
  CLI::Option* key = command.add_option("--tls-key", server.tls_key, "The certificate's key, PEM");
  group(cert->type_name("FILE")->check(NotEmpty())->needs(key));
  group(key->type_name("FILE")->check(NotEmpty())->needs(cert));
  group(command
            .add_option("--api-keys", server.api_keys,
                        "One key a line; requests then need one of them. SIGHUP reads it again")
            ->type_name("FILE")
            ->check(NotEmpty()));
  group(command
            .add_option("--cors-origin", server.cors_origin,
                        "Let pages of this origin, or of any (*), use the server from a browser")
            ->type_name("ORIGIN")
            ->check(CLI::Validator(CheckOrigin, "")));
  group(command
            .add_option("--http-threads", server.threads,
                        "Network threads, apart from the compute threads")
            ->transform(WholeNumber(1, 256))
            ->capture_default_str());
  group(command.add_flag("--access-log", server.access_log,
                         "A line of JSON on standard output for each request"));
}

void AddBatching(CLI::App& command, Options& options) {
  const auto group = [](CLI::Option* option) { option->group("Batching"); };
  BatchOptions& batch = options.model.engine.batch;
  group(command
            .add_option("--window-ms", options.window_ms,
                        "How long the first request of an idle period waits for others. 0: it "
                        "runs now if the device is free, otherwise in the next batch")
            ->check(RealNumber(0.0, 60000))
            ->capture_default_str());
  group(command.add_option("--max-batch", batch.max_batch, "Requests in a batch")
            ->transform(WholeNumber(1))
            ->capture_default_str());
  group(command.add_option("--max-tokens", batch.max_tokens, "Tokens in a batch")
            ->transform(WholeNumber(1))
            ->capture_default_str());
  group(command
            .add_option("--queue-requests", batch.max_queue_requests,
                        "Requests that may wait; more are answered 429")
            ->transform(WholeNumber(1))
            ->capture_default_str());
  group(command
            .add_option("--queue-tokens", batch.max_queue_tokens,
                        "Tokens that may wait; more are answered 429")
            ->transform(WholeNumber(1))
            ->capture_default_str());
  CLI::Option* hold =
      command.add_flag("--array-hold", options.array_hold,
                       "An array keeps the device to its end. Default: only with a window");
  CLI::Option* no_hold =
      command.add_flag("--no-array-hold", options.no_array_hold,
                       "Single requests run between two chunks of an array, also with a window");
  hold->group("Batching")->excludes(no_hold);
  no_hold->group("Batching");
}

void AddLimits(CLI::App& command, Options& options) {
  const auto group = [](CLI::Option* option) { option->group("Limits"); };
  server::ServerOptions& server = options.server;
  group(command.add_option("--max-body-bytes", server.max_body_bytes, "Of a request's body")
            ->transform(WholeNumber(1, kMaxBodyBytes))
            ->capture_default_str());
  group(command
            .add_option("--max-held-bytes", server.max_held_bytes,
                        "Of all bodies and answers in flight; a request that finds too few left is "
                        "answered 429")
            ->transform(WholeNumber(1, kMaxBodyBytes))
            ->capture_default_str());
  group(command.add_option("--max-items", server.max_items, "Texts in a request")
            ->transform(WholeNumber(1))
            ->capture_default_str());
  group(command.add_option("--max-json-depth", server.max_json_depth, "Levels of nesting")
            ->transform(WholeNumber(2, 1000))
            ->capture_default_str());
  group(command.add_option("--max-header-bytes", server.max_header_bytes, "Of a request's header")
            ->transform(WholeNumber(1024, 1 << 24))
            ->capture_default_str());
  group(command.add_option("--max-connections", server.max_connections, "Open at a time")
            ->transform(WholeNumber(1))
            ->capture_default_str());
  group(command
            .add_option("--idle-timeout-s", options.idle_timeout_s,
                        "Between two requests of a connection")
            ->check(RealNumber(0.1, 86400))
            ->capture_default_str());
  group(command
            .add_option("--read-timeout-s", options.read_timeout_s,
                        "From a request's first byte to its last")
            ->check(RealNumber(0.1, 86400))
            ->capture_default_str());
}

}  // namespace

void AddServe(CLI::App& app, Work& work) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "serve", "Answer HTTP requests on the routes of OpenAI and Text Embeddings Inference");
  AddModels(*command, *options);
  AddNetwork(*command, options->server);
  AddBatching(*command, *options);
  AddLimits(*command, *options);
  command->footer(
      "Example:\n"
      "  sprat serve -m all-MiniLM-L6-v2 &\n"
      "  curl localhost:8080/v1/embeddings -H 'Content-Type: application/json' "
      "-d '{\"input\":\"hello\"}'\n"
      "docs/serving.md describes routes, limits and metrics.");
  command->callback([options, &work] {
    RefuseContradictions(*options);
    work = [options] { return RunServer(*options); };
  });
}

}  // namespace sprat::cli
