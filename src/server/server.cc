#include "server/server.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <memory>
#include <set>
#include <utility>

#include "server/access_log.h"
#include "server/listener.h"
#include "server/service.h"
#include "server/systemd.h"

namespace sprat::server {
namespace {

using boost::system::error_code;

constexpr std::chrono::milliseconds kDrainPoll{10};

Result<void> CheckOptions(const ServerOptions& options) {
  const auto wrong = [](std::string message) {
    return Error(ErrorCode::kInvalidArgument, std::move(message));
  };
  if (options.models.empty()) return wrong("no model to serve");
  std::set<std::string> ids;
  for (const ModelSource& model : options.models) {
    if (model.id.empty()) return wrong("a model's id must not be empty");
    if (!ids.insert(model.id).second) return wrong("two models are called '" + model.id + "'");
  }
  if (options.host.empty() && options.uds.empty()) return wrong("neither a host nor a Unix socket");
  if (options.tls_cert.empty() != options.tls_key.empty()) {
    return wrong("TLS needs both a certificate and a key");
  }
  if (options.threads < 1) return wrong("threads must be at least 1, got 0");
  const bool unsafe = options.cors_origin.find_first_of("\r\n") != std::string::npos;
  if (unsafe) return wrong("the CORS origin must be one line");
  const size_t scheme = options.cors_origin.find("://");
  const bool is_origin = scheme != std::string::npos && scheme > 0 &&
                         options.cors_origin.find_first_of("/ ", scheme + 3) == std::string::npos;
  if (!options.cors_origin.empty() && options.cors_origin != "*" && !is_origin) {
    return wrong("the CORS origin must be '*' or scheme://host or scheme://host:port, got '" +
                 options.cors_origin + "'");
  }
  return {};
}

Result<std::unique_ptr<asio::ssl::context>> MakeTls(const ServerOptions& options) {
  if (options.tls_cert.empty()) return std::unique_ptr<asio::ssl::context>();
  auto tls = std::make_unique<asio::ssl::context>(asio::ssl::context::tls_server);
  error_code fault;
  tls->set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_tlsv1 |
                       asio::ssl::context::no_tlsv1_1,
                   fault);
  tls->use_certificate_chain_file(options.tls_cert.string(), fault);
  if (fault) {
    return Error(ErrorCode::kIo,
                 "TLS certificate " + options.tls_cert.string() + ": " + fault.message());
  }
  tls->use_private_key_file(options.tls_key.string(), asio::ssl::context::pem, fault);
  if (fault) {
    return Error(ErrorCode::kIo, "TLS key " + options.tls_key.string() + ": " + fault.message());
  }
  return tls;
}

// A connection is a descriptor; the default of 1,024 would be less than the limit on connections.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// The whole server. The calling thread runs the control loop: signals, and the end.
class Server {
 public:
  explicit Server(const ServerOptions& options)
      : service_(options), signals_(control_.get_executor()) {
    for (size_t i = 0; i < options.threads; ++i) {
      threads_.push_back(std::make_unique<NetworkThread>(service_));
    }
  }

  Result<void> Run();

 private:
  Result<void> Listen();
  void Load();
  Task<void> HandleSignals();
  Task<void> Drain();
  Task<void> StopAccepting();

  Service service_;
  asio::io_context control_{1};
  asio::basic_signal_set<Executor> signals_;
  std::unique_ptr<asio::ssl::context> tls_;
  std::vector<std::unique_ptr<NetworkThread>> threads_;
  std::optional<TcpAcceptor> tcp_;  // both live on the first network thread
  std::optional<UnixAcceptor> unix_;
  std::thread loader_;
  Result<void> result_;  // touched by the control loop only
};

Result<void> Server::Listen() {
  const ServerOptions& options = service_.options;
  const Executor executor = threads_.front()->executor();
  if (!options.host.empty()) {
    Result<TcpAcceptor> acceptor = ListenTcp(executor, options.host, options.port);
    if (!acceptor.ok()) return std::move(acceptor.error());
    tcp_.emplace(std::move(acceptor).value());
    spdlog::info("listening on {}://{}:{}", tls_ ? "https" : "http", options.host,
                 tcp_->local_endpoint().port());
  }
  if (!options.uds.empty()) {
    Result<UnixAcceptor> acceptor = ListenUnix(executor, options.uds);
    if (!acceptor.ok()) return std::move(acceptor.error());
    unix_.emplace(std::move(acceptor).value());
    spdlog::info("listening on {}", options.uds.string());
  }
  return {};
}

// On a thread of its own, so that /health can say that models are loading.
void Server::Load() {
  Result<void> loaded = service_.Load();
  if (loaded.ok()) {
    if (!service_.ready()) return;  // told to end before it was done
    for (const ServedModel& model : service_.models()) {
      const EngineInfo& info = model.engine.info();
      spdlog::info("serving '{}': {}, {} dimensions, {} on {}, {} threads", model.id,
                   info.architecture, info.dimensions, info.arithmetic, info.device, info.threads);
      for (const std::string& warning : info.warnings) spdlog::warn("{}: {}", model.id, warning);
    }
    NotifySystemd("READY=1");
    return;
  }
  asio::post(control_, [this, loaded = std::move(loaded)]() mutable {
    result_ = std::move(loaded);
    control_.stop();
  });
}

Task<void> Server::HandleSignals() {
  while (true) {
    error_code fault;
    const int signal = co_await signals_.async_wait(asio::redirect_error(kAwait, fault));
    if (fault) co_return;
    if (signal != SIGHUP) break;
    if (service_.options.api_keys.empty()) {
      spdlog::info("there is no file of API keys to read again");
      continue;
    }
    const Result<void> read = service_.ReadKeys();
    if (read.ok()) {
      spdlog::info("read the API keys again");
    } else {
      spdlog::error("the API keys stay as they were: {}", read.error().message());
    }
  }
  co_await Drain();
  control_.stop();
}

// On the first network thread, where the acceptors live.
Task<void> Server::StopAccepting() {
  error_code ignored;
  if (tcp_.has_value()) tcp_->close(ignored);
  if (unix_.has_value()) {
    unix_->close(ignored);
    std::error_code also_ignored;
    std::filesystem::remove(service_.options.uds, also_ignored);
  }
  co_return;
}

// Lets every connection finish its request. Of models that are still loading, only the one that is
// being opened is waited for.
Task<void> Server::Drain() {
  spdlog::info("shutting down");
  NotifySystemd("STOPPING=1");
  service_.Drain();
  co_await asio::co_spawn(threads_.front()->executor(), StopAccepting(), kAwait);
  // A connection that was accepted before that is counted once its thread has come to it.
  for (const auto& thread : threads_) {
    const auto nothing = []() -> Task<void> { co_return; };
    co_await asio::co_spawn(thread->executor(), nothing(), kAwait);
  }
  const SteadyClock::time_point end = SteadyClock::now() + service_.options.drain_timeout;
  Timer poll(control_.get_executor());
  while (service_.connections() > 0 && SteadyClock::now() < end) {
    poll.expires_after(kDrainPoll);
    error_code ignored;
    co_await poll.async_wait(asio::redirect_error(kAwait, ignored));
  }
  if (const size_t left = service_.connections(); left > 0) {
    spdlog::warn("{} connections had to be cut off", left);
  }
}

Result<void> Server::Run() {
  if (Result<void> keys = service_.ReadKeys(); !keys.ok()) return keys;
  Result<std::unique_ptr<asio::ssl::context>> tls = MakeTls(service_.options);
  if (!tls.ok()) return std::move(tls.error());
  tls_ = std::move(tls).value();
  if (Result<void> listening = Listen(); !listening.ok()) return listening;
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    error_code fault;
    signals_.add(signal, fault);
    if (fault) return Error(ErrorCode::kIo, "cannot wait for signals: " + fault.message());
  }
  const Executor first = threads_.front()->executor();
  if (tcp_) asio::co_spawn(first, Accept(*tcp_, threads_, service_, tls_.get()), asio::detached);
  if (unix_) asio::co_spawn(first, Accept(*unix_, threads_, service_), asio::detached);
  asio::co_spawn(control_.get_executor(), HandleSignals(), asio::detached);
  for (const auto& thread : threads_) thread->Start();
  loader_ = std::thread([this] { Load(); });
  control_.run();
  loader_.join();
  for (const auto& thread : threads_) thread->Stop();
  for (std::optional<asio::thread_pool>* const pool : {&service_.heavy, &service_.token_vectors}) {
    (*pool)->stop();
    (*pool)->join();
    pool->reset();  // what it never started ends here, while the loops are still there
  }
  service_.Close();  // before the loops that its last answers are posted to
  return std::move(result_);
}

}  // namespace

Result<void> Serve(const ServerOptions& options) {
  if (Result<void> valid = CheckOptions(options); !valid.ok()) return valid;
  RaiseDescriptorLimit();
  std::signal(SIGPIPE, SIG_IGN);  // a log without a reader must not end the server
  const auto log =
      std::make_shared<spdlog::logger>("sprat", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  log->set_pattern("%Y-%m-%dT%H:%M:%S.%e %l: %v");
  spdlog::set_default_logger(log);
  Result<void> result = Server(options).Run();
  EndAccessLog();
  spdlog::shutdown();
  return result;
}

}  // namespace sprat::server
