/* Runs a program, and prints which of the given functions it executes, in the order of their first call.
 *
 *   first ADDRESSES PROGRAM [ARGUMENT...]
 *
 * ADDRESSES is a file with one hexadecimal address per line, in ascending order; the program must be loaded
 * at its link address. Each function starts with a breakpoint, which its first call removes, so the
 * overhead is small. The tracer follows forks, and execve(2) of the program itself; it detaches from a
 * process that executes another program. The addresses are appended to the file that $FIRST names.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned long *functions, from, to;
static size_t count;
static unsigned char *code, *with_breakpoints, *seen;
static struct stat own;

static int memory_of(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof path, "/proc/%d/mem", pid);
	return open(path, O_RDWR | O_CLOEXEC);
}

/* Writes the breakpoints into a process that has just executed the program. */
static void prepare(pid_t pid)
{
	int memory = memory_of(pid);

	if (!code) {
		code = malloc(to - from);
		if (!code || pread(memory, code, to - from, from) != (ssize_t)(to - from))
			exit(1);
		with_breakpoints = malloc(to - from);
		memcpy(with_breakpoints, code, to - from);
		for (size_t at = 0; at < count; at++)
			with_breakpoints[functions[at] - from] = 0xcc;
	}
	if (pwrite(memory, with_breakpoints, to - from, from) != (ssize_t)(to - from))
		exit(1);
	close(memory);
}

static int is_own(pid_t pid)
{
	char path[64];
	struct stat found;

	snprintf(path, sizeof path, "/proc/%d/exe", pid);
	return !stat(path, &found) && found.st_ino == own.st_ino && found.st_dev == own.st_dev;
}

/* Removes a breakpoint and prints its address. Returns whether there was one. */
static int pass(pid_t pid, FILE *out)
{
	struct user_regs_struct registers;

	if (ptrace(PTRACE_GETREGS, pid, NULL, &registers))
		return 0;
	unsigned long at = registers.rip - 1;
	if (at < from || at >= to || with_breakpoints[at - from] != 0xcc || code[at - from] == 0xcc)
		return 0;
	int memory = memory_of(pid);
	if (pwrite(memory, &code[at - from], 1, at) != 1)
		exit(1);
	close(memory);
	registers.rip = at;
	ptrace(PTRACE_SETREGS, pid, NULL, &registers);
	if (!seen[at - from])
		fprintf(out, "%016lx\n", at);
	seen[at - from] = 1;
	return 1;
}

int main(int argc, char **argv)
{
	unsigned long address;
	FILE *given = argc < 3 ? NULL : fopen(argv[1], "r");
	FILE *out = fopen(getenv("FIRST"), "a");

	if (!given || !out || stat(argv[2], &own))
		return 2;
	for (; fscanf(given, "%lx", &address) == 1; functions[count++] = address)
		if (count % 4096 == 0)
			functions = realloc(functions, (count + 4096) * sizeof *functions);
	if (!count)
		return 2;
	from = functions[0];
	to = functions[count - 1] + 1;
	seen = calloc(1, to - from);

	pid_t first = fork();
	if (first == 0) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		execv(argv[2], argv + 2);
		_exit(127);
	}
	int status;
	waitpid(first, &status, 0);
	ptrace(PTRACE_SETOPTIONS, first, NULL,
	       PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC);
	ptrace(PTRACE_CONT, first, NULL, NULL);
	for (pid_t pid; (pid = waitpid(-1, &status, __WALL)) > 0;) {
		if (!WIFSTOPPED(status))
			continue;
		int sig = WSTOPSIG(status), event = status >> 16;
		if (event == PTRACE_EVENT_EXEC) {
			if (!is_own(pid)) {
				ptrace(PTRACE_DETACH, pid, NULL, NULL);
				continue;
			}
			prepare(pid);
		}
		/* A new traced process starts with SIGSTOP (ptrace(2)); siding sends none in these runs. */
		int is_ours = event || sig == SIGSTOP || (sig == SIGTRAP && pass(pid, out));
		ptrace(PTRACE_CONT, pid, NULL, is_ours ? 0 : sig);
	}
	fclose(out);
	return 0;
}
