// sprat serve, and what asks servers, in a build that has no server.
#include "cli/options.h"
#include "cli/remote.h"

namespace sprat::cli {

void AddServe(CLI::App& app, Work& work) {
  CLI::App* command = app.add_subcommand("serve", "Answer HTTP requests: not in this build");
  command->prefix_command();
  command->callback([&work] {
    work = []() -> Result<int> {
      return Error(ErrorCode::kUnsupported,
                   "serve: this build has no server; configure with -DSPRAT_BUILD_SERVER=ON");
    };
  });
}

Result<FetchVectors> OpenRemote(const RemoteOptions& options) {
  return Error(ErrorCode::kUnsupported, options.url +
                                            ": this build has no HTTP client; configure with "
                                            "-DSPRAT_BUILD_SERVER=ON");
}

}  // namespace sprat::cli
