/*
 * The counterpart of the round-trip benchmark: sends SubnGet(NodeInfo) over the
 * directed route 0,1, one at a time, through libibmad and libibumad.
 *
 *   ibmad_loop DEVICE PORT COUNT [ATTRIBUTE]
 *
 * Prints "round_trips_per_s=R answered=N lost=M". ATTRIBUTE is nodeinfo (the
 * default) or portinfo.
 *
 * Link with -libmad -libumad.
 */
#include <infiniband/mad.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	int classes[] = { IB_SMI_CLASS, IB_SMI_DIRECT_CLASS };
	unsigned attribute = IB_ATTR_NODE_INFO;
	unsigned char data[IB_SMP_DATA_SIZE];
	struct ibmad_port *port;
	long count, i, answered = 0;
	ib_portid_t to;
	double start, seconds;

	if (argc < 4 || argc > 5) {
		fprintf(stderr, "usage: ibmad_loop DEVICE PORT COUNT [nodeinfo|portinfo]\n");
		return 2;
	}
	count = strtol(argv[3], NULL, 0);
	if (count <= 0) {
		fprintf(stderr, "ibmad_loop: COUNT must be a number above 0, not \"%s\"\n", argv[3]);
		return 2;
	}
	if (argc == 5 && !strcmp(argv[4], "portinfo"))
		attribute = IB_ATTR_PORT_INFO;

	port = mad_rpc_open_port(argv[1], (int)strtol(argv[2], NULL, 0), classes, 2);
	if (!port) {
		fprintf(stderr, "ibmad_loop: cannot open port %s of %s: is the device there?\n", argv[2], argv[1]);
		return 1;
	}
	memset(&to, 0, sizeof to);
	to.drpath.cnt = 1;
	to.drpath.p[1] = 1;

	start = now();
	for (i = 0; i < count; i++)
		if (smp_query_via(data, &to, attribute, 0, 1000, port))
			answered++;
	seconds = now() - start;

	printf("round_trips_per_s=%.0f answered=%ld lost=%ld\n", (double)count / seconds, answered, count - answered);
	mad_rpc_close_port(port);
	return answered == count ? 0 : 1;
}
