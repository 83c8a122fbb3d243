#include "base/cgroups.h"

#include <fstream>
#include <sstream>

namespace sprat {
namespace {

// mount and everything below it down to mount/group.
void AppendDownwards(const std::filesystem::path& mount, std::string_view group,
                     std::vector<std::filesystem::path>& directories) {
  std::filesystem::path at = mount;
  directories.push_back(at);
  for (const auto& part : std::filesystem::path(group).relative_path()) {
    at /= part;
    directories.push_back(at);
  }
}

}  // namespace

Cgroups CgroupsOf(std::string_view cgroup_text, const std::filesystem::path& mount,
                  std::string_view controller) {
  // A line is "id:controllers:path"; v2 is "0::path".
  Cgroups groups;
  std::istringstream lines{std::string(cgroup_text)};
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) AppendDownwards(mount, group, groups.v2);
    const std::string wanted = ',' + std::string(controller) + ',';
    if ((',' + controllers + ',').find(wanted) == std::string::npos) continue;
    AppendDownwards(mount / controller, group, groups.v1);
    if (controllers != controller) AppendDownwards(mount / controllers, group, groups.v1);
  }
  return groups;
}

std::string SystemText(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string text;
  // getline catches what a buffer throws when a read fails.
  for (std::string line; std::getline(file, line);) text += line + '\n';
  return text;
}

std::string OwnCgroupText() { return SystemText("/proc/self/cgroup"); }

}  // namespace sprat
