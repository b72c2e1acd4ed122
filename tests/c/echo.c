/*
 * The counterpart of the turnaround benchmark: receives frames of one EtherType
 * on an interface, and sends each frame back to its sender.
 *
 *   echo INTERFACE ETHERTYPE
 *
 * Prints "ready" when the socket is open. Ends when standard input ends.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	static unsigned char frame[65536];
	struct sockaddr_ll to = { .sll_family = AF_PACKET };
	long type;
	int fd;

	if (argc != 3) {
		fprintf(stderr, "usage: echo INTERFACE ETHERTYPE\n");
		return 2;
	}
	type = strtol(argv[2], NULL, 0);
	if (type < 0x600 || type > 0xffff) {
		fprintf(stderr, "echo: ETHERTYPE must be 0x600 to 0xffff, not \"%s\"\n", argv[2]);
		return 2;
	}
	fd = socket(AF_PACKET, SOCK_RAW, 0);
	if (fd < 0) {
		perror("echo: a packet socket (root is needed)");
		return 1;
	}
	to.sll_protocol = htons((unsigned short)type);
	to.sll_ifindex = (int)if_nametoindex(argv[1]);
	if (!to.sll_ifindex || bind(fd, (struct sockaddr *)&to, sizeof to)) {
		fprintf(stderr, "echo: cannot use the interface \"%s\": %s\n", argv[1], strerror(errno));
		return 1;
	}
	puts("ready");
	fflush(stdout);

	for (;;) {
		struct pollfd wait[] = { { .fd = fd, .events = POLLIN }, { .fd = 0, .events = POLLIN } };
		struct sockaddr_ll from;
		socklen_t size = sizeof from;
		ssize_t length;

		length = recvfrom(fd, frame, sizeof frame, MSG_DONTWAIT, (struct sockaddr *)&from, &size);
		if (length < 0) {
			if (errno != EAGAIN && errno != EINTR) {
				perror("echo: receiving");
				return 1;
			}
			if (poll(wait, 2, -1) > 0 && wait[1].revents)
				return 0;
			continue;
		}
		/* The socket also receives frames that this machine sends. */
		if (from.sll_pkttype == PACKET_OUTGOING || length < 14)
			continue;
		memcpy(to.sll_addr, frame + 6, 6);
		memmove(frame + 6, frame, 6);
		memcpy(frame, to.sll_addr, 6);
		to.sll_halen = 6;
		if (sendto(fd, frame, (size_t)length, 0, (struct sockaddr *)&to, sizeof to) < 0) {
			perror("echo: sending");
			return 1;
		}
	}
}
