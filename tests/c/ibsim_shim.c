/*
 * A preload between a program and ibsim's preload (libumad2sim.so of ibsim
 * 0.10), which replaces the kernel below libibumad. This shim works around faults
 * of ibsim's preload, so that programs need not handle the faults.
 *
 *   LD_PRELOAD="ibsim_shim.so:LIBUMAD2SIM" SIM_HOST=NODE IBSIM_SOCKNAME=NAME \
 *   VERBATIM_LAB_IBSIM_FILES=DIRECTORY PROGRAM
 *
 * - ibsim's preload stores files in sys-PROCESS in the working directory, and
 *   looks for them there at every open. The shim stores the files in DIRECTORY
 *   (or TMPDIR, or /tmp), for any working directory.
 * - If SIM_HOST is unknown or the simulator's ten slots are occupied, ibsim's
 *   preload ends the process inside an open. If no simulator runs, ibsim's
 *   preload waits forever. With the shim, the open fails, and stderr has the
 *   reason.
 * - A poll of ibsim's preload does not notice that the simulator ended, fails
 *   without a reason after a spurious wake-up, and counts microseconds in 32
 *   bits. The shim's poll consists of short polls. It fails with ECONNREFUSED
 *   if the simulator ended, and continues after a spurious wake-up.
 * - With ibsim's preload alone, a MAD that arrives after its class was
 *   unregistered ends the process. The shim waits briefly for outstanding
 *   responses before it unregisters a class.
 *
 * Remaining limits: the kernel does not know the descriptors of ibsim's preload
 * (1024 and above). The process must therefore use fewer than 1024 real
 * descriptors, and poll a descriptor of the preload alone. Timeouts are not
 * emulated: an undeliverable MAD comes back at once with status 110, and a
 * discarded MAD never comes back. At most 64 MADs should be outstanding; with a
 * thousand, simulator and preload block each other. The shim is not thread-safe.
 *
 * Build with -shared -fPIC -ldl -lpthread.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/ib_user_mad.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum {
	PROBE_MS = 250, /* silence after which the shim checks that the simulator runs */
	DRAIN_MS = 50,
	MAD = 256,
};

typedef int (*scan_filter)(const struct dirent *);
typedef int (*scan_order)(const struct dirent **, const struct dirent **);

/* The next function of that name: the function of ibsim's preload or of libc. */
#define NEXT(function)                                                               \
	({                                                                           \
		static __typeof__(&function) found;                                  \
		if (!found)                                                          \
			found = (__typeof__(&function))dlsym(RTLD_NEXT, #function);  \
		found;                                                               \
	})

static const char *variable(const char *name, const char *otherwise)
{
	const char *value = getenv(name);

	return value && *value ? value : otherwise;
}

static long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* A failed start of ibsim's preload jumps back to attach(). The shim does not try the start again. */

static __thread jmp_buf *way_back;
static int attached, refused;

static void give_up(const char *why, const char *name, const char *value)
{
	refused = 1;
	fprintf(stderr, "ibsim: %s=%s %s\n", name, value, why);
	longjmp(*way_back, 1);
}

static int attach(void)
{
	jmp_buf here;

	if (!attached && !refused) {
		way_back = &here;
		if (!setjmp(here)) {
			/* Opening a path of this kind starts ibsim's preload. */
			int fd = NEXT(open)("/sys/class/infiniband_mad/abi_version", O_RDONLY);

			if (fd >= 0)
				NEXT(close)(fd);
			attached = 1;
		}
		way_back = NULL;
	}
	if (refused)
		errno = ECONNREFUSED;
	return !refused;
}

void exit(int status)
{
	if (way_back)
		give_up("names no node of the simulated subnet, or all ten places for clients are taken "
			"(one that was killed keeps its place): correct it, or start the simulator again",
			"SIM_HOST", variable("SIM_HOST", ""));
	NEXT(exit)(status);
	abort();
}

unsigned sleep(unsigned seconds)
{
	if (way_back)
		give_up("names no simulator that runs: start it, or correct the name", "IBSIM_SOCKNAME",
			variable("IBSIM_SOCKNAME", "sim"));
	return NEXT(sleep)(seconds);
}

/* Files. */

static int is_sysfs(const char *path)
{
	return !strncmp(path, "/sys/class/infiniband", strlen("/sys/class/infiniband"));
}

/* Returns the real path of a file of ibsim's preload; returns other paths unchanged, and NULL without a simulator. */
static const char *place(const char *path, char *space)
{
	const char *above = variable("VERBATIM_LAB_IBSIM_FILES", variable("TMPDIR", "/tmp"));

	if (is_sysfs(path)) {
		if (!attach())
			return NULL;
		snprintf(space, PATH_MAX, "%s/sys-%d/%s", above, (int)getpid(), path);
	} else if (!strncmp(path, "./sys-", strlen("./sys-"))) {
		snprintf(space, PATH_MAX, "%s/%s", above, path);
	} else {
		return path;
	}
	return space;
}

int open(const char *path, int flags, ...)
{
	char space[PATH_MAX];
	const char *there = place(path, space);
	mode_t mode = 0;

	if (flags & (O_CREAT | O_TMPFILE)) {
		va_list rest;

		va_start(rest, flags);
		mode = va_arg(rest, mode_t);
		va_end(rest);
	}
	if (!there || (!strncmp(path, "/dev/infiniband", strlen("/dev/infiniband")) && !attach()))
		return -1;
	return there == path ? NEXT(open)(path, flags, mode) : openat(AT_FDCWD, there, flags, mode);
}

DIR *opendir(const char *path)
{
	char space[PATH_MAX];
	const char *there = place(path, space);
	int fd;

	if (!there)
		return NULL;
	if (there == path)
		return NEXT(opendir)(path);
	fd = openat(AT_FDCWD, there, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? NULL : fdopendir(fd);
}

int scandir(const char *path, struct dirent ***list, scan_filter filter, scan_order order)
{
	char space[PATH_MAX];
	const char *there = place(path, space);

	if (!there)
		return -1;
	return there == path ? NEXT(scandir)(path, list, filter, order)
			     : scandirat(AT_FDCWD, there, list, filter, order);
}

int mkdir(const char *path, mode_t mode)
{
	char space[PATH_MAX];

	return mkdirat(AT_FDCWD, place(path, space), mode);
}

int unlink(const char *path)
{
	char space[PATH_MAX];

	return unlinkat(AT_FDCWD, place(path, space), 0);
}

int rmdir(const char *path)
{
	char space[PATH_MAX];

	return unlinkat(AT_FDCWD, place(path, space), AT_REMOVEDIR);
}

int stat(const char *path, struct stat *of)
{
	char space[PATH_MAX];

	return fstatat(AT_FDCWD, place(path, space), of, 0);
}

/* Programs that were built for an older libc call stat by this name. ibsim's preload may be such a program. */
int __xstat(int version, const char *path, struct stat *of)
{
	(void)version;
	return stat(path, of);
}

FILE *fopen(const char *path, const char *mode)
{
	char space[PATH_MAX];

	return NEXT(fopen)(place(path, space), mode);
}

/* The port. */

static atomic_long sign_ms; /* time of the last packet from the simulator */
static atomic_int outstanding;

static int is_port(int fd)
{
	return fd >= 1024 && fd < 2048;
}

/* Returns whether a process has the simulator's socket name. Returns 1 for a simulator on another machine. */
static int is_there(void)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	int fd, length, code;

	if (*variable("IBSIM_SERVER_NAME", ""))
		return 1;
	length = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "%s:ctl", variable("IBSIM_SOCKNAME", "sim"));
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return 1;
	/* The simulator's name includes the terminating zero. */
	code = connect(fd, (struct sockaddr *)&name, offsetof(struct sockaddr_un, sun_path) + 1 + length + 1);
	NEXT(close)(fd);
	return code == 0;
}

int poll(struct pollfd *fds, nfds_t count, int timeout)
{
	long start = now_ms(), now = start;

	if (count != 1 || !is_port(fds->fd))
		return NEXT(poll)(fds, count, timeout);
	for (;;) {
		long left = timeout < 0 ? PROBE_MS : start + timeout - now;
		int got, cancel;

		errno = 0;
		/* A thread that is cancelled inside ibsim's poll would keep the lock that close needs. */
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
		got = NEXT(poll)(fds, 1, left < 0 ? 0 : left < PROBE_MS ? left : PROBE_MS);
		pthread_setcancelstate(cancel, NULL);
		pthread_testcancel();
		now = now_ms();
		if (got > 0)
			sign_ms = now;
		if (got > 0 || (got < 0 && errno))
			return got;
		if (now - sign_ms >= PROBE_MS) {
			sign_ms = now;
			if (!is_there()) {
				errno = ECONNREFUSED;
				return -1;
			}
		}
		if (timeout >= 0 && now - start >= timeout)
			return 0;
	}
}

static int is_answer(const unsigned char *mad)
{
	return mad[3] & 0x80 || mad[3] == 0x07;
}

ssize_t write(int fd, const void *data, size_t length)
{
	ssize_t done = NEXT(write)(fd, data, length);

	if (is_port(fd) && done >= MAD && !is_answer((const unsigned char *)data + length - MAD))
		outstanding++;
	return done;
}

ssize_t read(int fd, void *data, size_t length)
{
	ssize_t got = NEXT(read)(fd, data, length);

	if (is_port(fd) && got >= MAD && outstanding > 0 &&
	    (((struct ib_user_mad_hdr *)data)->status || is_answer((unsigned char *)data + got - MAD)))
		outstanding--;
	return got;
}

static void drain(int fd)
{
	struct pollfd port = { .fd = fd, .events = POLLIN };
	unsigned char scratch[sizeof(struct ib_user_mad_hdr) + MAD];
	long left, end = now_ms() + DRAIN_MS;

	while (outstanding > 0 && (left = end - now_ms()) > 0 && poll(&port, 1, left) > 0)
		if (read(fd, scratch, sizeof scratch) < 0)
			break;
	outstanding = 0;
}

int ioctl(int fd, unsigned long request, ...)
{
	va_list rest;
	void *argument;

	va_start(rest, request);
	argument = va_arg(rest, void *);
	va_end(rest);
	if (is_port(fd) && request == IB_USER_MAD_UNREGISTER_AGENT)
		drain(fd);
	return NEXT(ioctl)(fd, request, argument);
}

int close(int fd)
{
	if (is_port(fd))
		drain(fd);
	return NEXT(close)(fd);
}
