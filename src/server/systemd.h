// The notification protocol of systemd (sd_notify(3)).
#ifndef SPRAT_SERVER_SYSTEMD_H_
#define SPRAT_SERVER_SYSTEMD_H_

#include <string_view>

namespace sprat::server {

// Sends `state`, "READY=1" or "STOPPING=1", to the socket that NOTIFY_SOCKET names. Does nothing
// if there is none, or if nobody listens.
void NotifySystemd(std::string_view state);

}  // namespace sprat::server

#endif  // SPRAT_SERVER_SYSTEMD_H_
