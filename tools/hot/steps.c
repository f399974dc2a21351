/* Follows a program and all its forks one instruction at a time, and prints each address that is
 * executed, once, in the order of the first time. Another program that is executed is let go.
 *
 *   steps FROM TO PROGRAM [ARGUMENT...]      addresses from FROM to TO, in hexadecimal
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	unsigned long from = strtoul(argv[1], NULL, 16), to = strtoul(argv[2], NULL, 16);
	char *seen = calloc(1, to - from);
	FILE *out = fopen(getenv("STEPS"), "a");
	int status, is_own = 1;
	pid_t first = fork();

	if (!seen || !out)
		return 1;
	if (first == 0) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		execv(argv[3], argv + 3);
		_exit(127);
	}
	waitpid(first, &status, 0);
	ptrace(PTRACE_SETOPTIONS, first, NULL,
	       PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC);
	ptrace(PTRACE_SINGLESTEP, first, NULL, NULL);
	for (;;) {
		pid_t pid = waitpid(-1, &status, __WALL);
		if (pid < 0)
			break;
		if (!WIFSTOPPED(status))
			continue;
		int signal = WSTOPSIG(status), event = status >> 16;
		if (event == PTRACE_EVENT_EXEC && !is_own) {
			ptrace(PTRACE_DETACH, pid, NULL, NULL);
			continue;
		}
		if (event == PTRACE_EVENT_EXEC)
			is_own = 0;
		if (signal == SIGTRAP && !event) {
			struct user_regs_struct registers;
			ptrace(PTRACE_GETREGS, pid, NULL, &registers);
			unsigned long at = registers.rip;
			if (at >= from && at < to && !seen[at - from]) {
				seen[at - from] = 1;
				fprintf(out, "%016lx\n", at);
			}
		}
		long pass = signal == SIGTRAP || signal == SIGSTOP ? 0 : signal;
		ptrace(PTRACE_SINGLESTEP, pid, NULL, pass);
	}
	return fclose(out) != 0;
}
