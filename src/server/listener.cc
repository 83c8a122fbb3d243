#include "server/listener.h"

#include <spdlog/spdlog.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/detached.hpp>
#include <string>
#include <utility>

namespace sprat::server {
namespace {

using boost::system::error_code;

constexpr int kBacklog{1024};
// Without descriptors, accepting again at once would only spin.
constexpr std::chrono::milliseconds kPauseWithoutDescriptors{100};
// Connections beyond the limit that are still told so; the rest is closed without a word.
constexpr size_t kRefusalsAtOnce{128};
constexpr std::chrono::seconds kComplaintPeriod{10};

Error CannotListen(const std::string& address, const error_code& fault) {
  return Error(ErrorCode::kIo, "cannot listen on " + address + ": " + fault.message());
}

template <typename Acceptor, typename Endpoint>
error_code Open(Acceptor& acceptor, const Endpoint& endpoint) {
  error_code fault;
  acceptor.open(endpoint.protocol(), fault);
  if (!fault) acceptor.set_option(asio::socket_base::reuse_address(true), fault);
  if (!fault) acceptor.bind(endpoint, fault);
  if (!fault) acceptor.listen(kBacklog, fault);
  return fault;
}

// Says why no connection can be accepted, unless it was said a moment ago: it is tried again ten
// times a second.
void Complain(const error_code& fault, const Service& service,
              std::optional<SteadyClock::time_point>& last) {
  const SteadyClock::time_point now = SteadyClock::now();
  if (last.has_value() && now - *last < kComplaintPeriod) return;
  last = now;
  spdlog::error("cannot accept a connection beside the {} that are open: {}", service.connections(),
                fault.message());
}

template <typename Protocol, typename Acceptor>
Task<void> AcceptAll(Acceptor& acceptor, std::span<const std::unique_ptr<NetworkThread>> threads,
                     Service& service, asio::ssl::context* tls) {
  size_t next = 0;
  std::optional<SteadyClock::time_point> complained;
  while (acceptor.is_open()) {
    NetworkThread& thread = *threads[next++ % threads.size()];
    asio::basic_stream_socket<Protocol, Executor> accepted(thread.executor());
    error_code fault;
    co_await acceptor.async_accept(accepted, asio::redirect_error(kAwait, fault));
    if (fault == asio::error::operation_aborted || !acceptor.is_open()) co_return;
    if (fault) {
      Complain(fault, service, complained);
      Timer pause(acceptor.get_executor(), kPauseWithoutDescriptors);
      co_await pause.async_wait(asio::redirect_error(kAwait, fault));
      continue;
    }
    const size_t open = service.connections();
    if (open >= service.options.max_connections + kRefusalsAtOnce) continue;  // closes it
    if constexpr (std::is_same_v<Protocol, asio::ip::tcp>) {
      accepted.set_option(asio::ip::tcp::no_delay(true), fault);
    }
    asio::co_spawn(thread.executor(),
                   ServeConnection(thread, service, Socket(std::move(accepted)), tls,
                                   open >= service.options.max_connections),
                   asio::detached);
  }
}

}  // namespace

Result<TcpAcceptor> ListenTcp(Executor executor, const std::string& host, uint16_t port) {
  const std::string address =
      (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + std::to_string(port);
  error_code fault;
  asio::ip::basic_resolver<asio::ip::tcp, Executor> resolver(executor);
  const auto found = resolver.resolve(
      host, std::to_string(port),
      asio::ip::resolver_base::passive | asio::ip::resolver_base::numeric_service, fault);
  if (fault || found.empty()) return CannotListen(address, fault);
  TcpAcceptor acceptor(executor);
  fault = Open(acceptor, found.begin()->endpoint());
  if (fault) return CannotListen(address, fault);
  return acceptor;
}

Result<UnixAcceptor> ListenUnix(Executor executor, const std::filesystem::path& path) {
  constexpr size_t kLongestPath{107};  // sun_path of unix(7)
  if (path.native().size() > kLongestPath) {
    return Error(ErrorCode::kIo, "cannot listen on " + path.string() + ": the path has more than " +
                                     std::to_string(kLongestPath) + " bytes");
  }
  const asio::local::stream_protocol::endpoint endpoint(path.string());
  std::error_code ignored;
  if (std::filesystem::is_socket(path, ignored)) {
    error_code fault;
    asio::basic_stream_socket<asio::local::stream_protocol, Executor> probe(executor);
    probe.connect(endpoint, fault);
    if (!fault) return CannotListen(path.string(), asio::error::address_in_use);
    // Nobody listens there any more. Whatever else went wrong, it may be somebody's.
    if (fault != asio::error::connection_refused) return CannotListen(path.string(), fault);
    std::filesystem::remove(path, ignored);
  }
  UnixAcceptor acceptor(executor);
  const error_code fault = Open(acceptor, endpoint);
  if (fault) return CannotListen(path.string(), fault);
  return acceptor;
}

Task<void> Accept(TcpAcceptor& acceptor, std::span<const std::unique_ptr<NetworkThread>> threads,
                  Service& service, asio::ssl::context* tls) {
  return AcceptAll<asio::ip::tcp>(acceptor, threads, service, tls);
}

Task<void> Accept(UnixAcceptor& acceptor, std::span<const std::unique_ptr<NetworkThread>> threads,
                  Service& service) {
  return AcceptAll<asio::local::stream_protocol>(acceptor, threads, service, nullptr);
}

}  // namespace sprat::server
