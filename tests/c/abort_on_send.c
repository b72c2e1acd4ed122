/*
 * A preload that ends the process at its Nth management datagram, as a crash
 * in a vendor library would.
 *
 *   LD_PRELOAD="abort_on_send.so LIBUMAD2SIM" VERBATIM_ABORT_ON_SEND=N PROGRAM
 *
 * VERBATIM_ABORT_ON_SEND    which datagram, from 1; unset or 0: none
 * VERBATIM_ABORT_HOW        abort (the default), segv, kill or exit
 * VERBATIM_ABORT_WHEN       before (the default) it is sent, or after
 *
 * It stands in for write(2), not for umad_send: a program that opens libibumad
 * at run time takes umad_send from the library itself, past every preload, but
 * the library's own write still comes through here. A datagram is a write of
 * 256 bytes and a header of 56 or 64 to a descriptor of ibsim's preload (1024
 * and above) or to /dev/infiniband/umad*. It must stand before ibsim's preload.
 *
 * Build with -shared -fPIC -ldl -lpthread.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static ssize_t (*next_write)(int, const void *, size_t);
static atomic_long sends;
static long fatal;

__attribute__((constructor)) static void prepare(void)
{
	const char *number = getenv("VERBATIM_ABORT_ON_SEND");

	next_write = (ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
	fatal = number ? strtol(number, NULL, 0) : 0;
}

static int is_umad(int fd)
{
	char link[64], path[256];
	ssize_t length;

	if (fd >= 1024)
		return 1;
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	length = readlink(link, path, sizeof path - 1);
	if (length < 0)
		return 0;
	path[length] = 0;
	return strstr(path, "/infiniband/umad") != NULL;
}

static void end(void)
{
	const char *how = getenv("VERBATIM_ABORT_HOW");

	if (how && !strcmp(how, "segv")) {
		signal(SIGSEGV, SIG_DFL); /* The program may have a handler of its own. */
		raise(SIGSEGV);
	}
	if (how && !strcmp(how, "kill"))
		raise(SIGKILL);
	if (how && !strcmp(how, "exit"))
		_exit(70);
	abort();
}

ssize_t write(int fd, const void *data, size_t length)
{
	const char *when;
	ssize_t result;

	if (!next_write)
		prepare();
	if (fatal <= 0 || (length != 256 + 64 && length != 256 + 56) || !is_umad(fd) ||
	    atomic_fetch_add(&sends, 1) + 1 != fatal)
		return next_write(fd, data, length);

	when = getenv("VERBATIM_ABORT_WHEN");
	if (!when || strcmp(when, "after"))
		end();
	result = next_write(fd, data, length);
	end();
	return result;
}
