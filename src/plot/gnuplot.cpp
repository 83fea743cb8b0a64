#include "plot/gnuplot.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "base/error.h"

extern char** environ;

namespace deltasane::plot {

std::string gnuplot_text(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\n') continue;
    out += c;
    if (c == '\'') out += c;  // a doubled quote is a literal one
  }
  return out + "'";
}

bool has_gnuplot() {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (::access((folder + "/gnuplot").c_str(), X_OK) == 0) return true;
  return false;
}

void run_gnuplot(const std::string& script, const fs::path& folder) {
  const fs::path file = folder / cat("figure-", ::getpid(), ".gnuplot");
  const fs::path log = folder / cat("figure-", ::getpid(), ".log");
  replace_file(file, script);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0644);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  char program[] = "gnuplot", execute[] = "-e";
  std::string change = cat("cd ", gnuplot_text(folder.string())),
              path = fs::absolute(file).string();
  char* const arguments[] = {program, execute, change.data(), path.data(), nullptr};
  pid_t child = 0;
  const int error = posix_spawnp(&child, program, &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  if (error == 0)
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
  const std::string output = fs::exists(log) ? read_file(log) : std::string();
  fs::remove(log);
  fs::remove(file);
  if (error == ENOENT)
    fail(Fault::device,
         "gnuplot: expected it to be installed, found none; figures are drawn by it: install the "
         "package gnuplot-nox");
  if (error != 0) fail(Fault::device, "gnuplot: cannot run: ", std::strerror(error));
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    fail(Fault::device, "gnuplot: expected a figure, found: ", output);
}

std::string svg_and_png(const std::string& name, int width, int height, const std::string& body) {
  const std::string size = cat(width, ",", height);
  return cat("set terminal svg size ", size,
             " font 'DejaVu Sans,Helvetica,sans-serif,15' background 'white' noenhanced\n"
             "set output ",
             gnuplot_text(name + ".svg"), "\n", body, "set terminal pngcairo size ", size,
             " font 'sans,12' noenhanced\n"
             "set output ",
             gnuplot_text(name + ".png"), "\n", body, "unset output\n");
}

}  // namespace deltasane::plot
