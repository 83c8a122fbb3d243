// Prints the kernel tables that this machine can run, one a line, the one it would choose first.
#include <cstdio>
#include <string>

#include "sprat/engine.h"

int main() {
  for (const std::string& name : sprat::AvailableKernels()) std::puts(name.c_str());
}
