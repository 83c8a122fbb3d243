#include "cli/model_path.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <system_error>

namespace sprat::cli {
namespace {

namespace fs = std::filesystem;

bool HoldsModel(const fs::path& directory) {
  std::error_code ignored;
  return fs::exists(directory / "config.json", ignored) ||
         fs::exists(directory / "modules.json", ignored) ||
         fs::exists(directory / "config_sentence_transformers.json", ignored);
}

fs::path Home(const Environment& env) { return env("HOME").value_or("/"); }

fs::path ModelsDirectory(const Environment& env) {
  if (const auto set = env("SPRAT_MODELS")) return *set;
  return Home(env) / ".cache/sprat/models";
}

fs::path HubCache(const Environment& env) {
  if (const auto set = env("HF_HUB_CACHE")) return *set;
  if (const auto set = env("HF_HOME")) return fs::path(*set) / "hub";
  return Home(env) / ".cache/huggingface/hub";
}

std::vector<fs::path> Subdirectories(const fs::path& directory) {
  std::vector<fs::path> found;
  std::error_code fault;
  for (fs::directory_iterator it(directory, fault), end; !fault && it != end; it.increment(fault)) {
    std::error_code ignored;
    if (it->is_directory(ignored)) found.push_back(it->path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

// The snapshot of a cached repository that is in use: refs/main, else the newest.
fs::path Snapshot(const fs::path& repository) {
  std::string revision;
  if (std::ifstream(repository / "refs/main") >> revision && !revision.empty()) {
    const fs::path named = repository / "snapshots" / revision;
    if (HoldsModel(named)) return named;
  }
  fs::path newest;
  fs::file_time_type newest_time = fs::file_time_type::min();
  for (const fs::path& snapshot : Subdirectories(repository / "snapshots")) {
    std::error_code fault;
    const fs::file_time_type time = fs::last_write_time(snapshot, fault);
    if (fault || !HoldsModel(snapshot) || (!newest.empty() && time <= newest_time)) continue;
    newest = snapshot;
    newest_time = time;
  }
  return newest;
}

// The directories of Hugging Face's cache that `name` may mean.
std::vector<fs::path> Repositories(const std::string& name, const fs::path& cache) {
  std::string flat = name;
  for (size_t at = 0; (at = flat.find('/', at)) != std::string::npos; at += 2) {
    flat.replace(at, 1, "--");
  }
  std::vector<fs::path> found = {cache / ("models--" + flat)};
  if (name.find('/') == std::string::npos) {
    found.push_back(cache / ("models--sentence-transformers--" + flat));
  }
  return found;
}

std::string KnownModels(const Environment& env) {
  const std::string directory = ModelsDirectory(env).string();
  const std::vector<std::string> installed = InstalledModels(env);
  std::error_code ignored;
  std::string text =
      fmt::format("models under {}: {}", directory,
                  installed.empty() ? "none" : fmt::format("{}", fmt::join(installed, ", ")));
  if (env("SPRAT_MODELS") && !fs::is_directory(directory, ignored)) {
    text = fmt::format("SPRAT_MODELS names {}, which is no directory", directory);
  }
  std::vector<std::string> cached;
  for (const fs::path& repository : Subdirectories(HubCache(env))) {
    const std::string name = repository.filename();
    constexpr std::string_view kPrefix{"models--"};
    if (!name.starts_with(kPrefix) || Snapshot(repository).empty()) continue;
    std::string plain = name.substr(kPrefix.size());
    if (const size_t at = plain.find("--"); at != std::string::npos) plain.replace(at, 2, "/");
    cached.push_back(plain);
  }
  if (!cached.empty()) {
    text += fmt::format("\nmodels in {}: {}", HubCache(env).string(), fmt::join(cached, ", "));
  }
  return text;
}

Result<fs::path> FindNamed(const std::string& name, const Environment& env) {
  std::vector<std::string> tried;
  const auto consider = [&tried](const fs::path& directory) {
    if (HoldsModel(directory)) return true;
    std::error_code ignored;
    const char* why = !fs::exists(directory, ignored)         ? "does not exist"
                      : !fs::is_directory(directory, ignored) ? "is a file, not a directory"
                                                              : "holds no config.json";
    tried.push_back(fmt::format("{} {}", directory.string(), why));
    return false;
  };
  if (consider(name)) return fs::path(name);
  if (!fs::path(name).is_absolute()) {
    const fs::path installed = ModelsDirectory(env) / name;
    if (consider(installed)) return installed;
    for (const fs::path& repository : Repositories(name, HubCache(env))) {
      const fs::path snapshot = Snapshot(repository);
      if (!snapshot.empty()) return snapshot;
      tried.push_back(fmt::format("{} holds no snapshot with a config.json", repository.string()));
    }
  }
  return Error(ErrorCode::kNotFound, fmt::format("no model '{}'\ntried: {}\n{}", name,
                                                 fmt::join(tried, "\ntried: "), KnownModels(env)));
}

}  // namespace

std::vector<std::string> InstalledModels(const Environment& env) {
  std::vector<std::string> names;
  for (const fs::path& directory : Subdirectories(ModelsDirectory(env))) {
    if (HoldsModel(directory)) names.push_back(directory.filename());
  }
  return names;
}

Result<fs::path> FindModel(const std::optional<std::string>& name, const Environment& env) {
  if (name) return FindNamed(*name, env);
  if (const auto set = env("SPRAT_MODEL")) {
    Result<fs::path> found = FindNamed(*set, env);
    if (!found.ok()) return std::move(found.error()).In("SPRAT_MODEL");
    return found;
  }
  const std::vector<std::string> installed = InstalledModels(env);
  if (installed.size() == 1) return ModelsDirectory(env) / installed[0];
  return Error(ErrorCode::kNotFound,
               fmt::format("which model? Name one with --model (a directory, or a name) or in the "
                           "variable SPRAT_MODEL\n{}",
                           KnownModels(env)));
}

}  // namespace sprat::cli
