/*
 * The counterpart of the agent's benchmark: posts RDMA WRITEs of 8 bytes from
 * one device to another, one at a time, and polls for each completion.
 *
 *   verbs_loop DEVICE OTHER COUNT
 *
 * Both devices are in this machine; the program uses the first IPv4 GID of each.
 * For each line of its input the program performs COUNT unmeasured WRITEs, then
 * COUNT measured WRITEs. The program prints a line with the measured times in
 * nanoseconds, each from before the post to after the poll that found the
 * completion.
 *
 * Link with -libverbs.
 */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct end {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	union ibv_gid gid;
	int index;
	char memory[4096];
};

static struct end ends[2];

static void fail(const char *what)
{
	fprintf(stderr, "verbs_loop: %s\n", what);
	exit(1);
}

static long long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void open_end(struct end *end, const char *name)
{
	static const unsigned char mapped[12] = { [10] = 0xff, [11] = 0xff };
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = 16, .max_recv_wr = 16,
						  .max_send_sge = 1, .max_recv_sge = 1 } };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1,
				    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
	int i;

	for (i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			end->context = ibv_open_device(list[i]);
	if (!end->context)
		fail("a device cannot be opened: `ibv_devices` lists them");
	for (i = 0; i < 16; i++) {
		if (ibv_query_gid(end->context, 1, i, &end->gid))
			fail("no GID that is an IPv4 address");
		if (!memcmp(end->gid.raw, mapped, sizeof mapped))
			break;
	}
	end->index = i;
	end->pd = ibv_alloc_pd(end->context);
	end->cq = ibv_create_cq(end->context, 64, NULL, NULL, 0);
	if (!end->pd || !end->cq)
		fail("no protection domain or completion queue");
	end->mr = ibv_reg_mr(end->pd, end->memory, sizeof end->memory,
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	init.send_cq = init.recv_cq = end->cq;
	end->qp = end->mr ? ibv_create_qp(end->pd, &init) : NULL;
	if (!end->qp)
		fail("no memory region or queue pair");
	if (ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		fail("to INIT");
}

static void connect_end(struct end *end, const struct end *other)
{
	struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024,
				   .dest_qp_num = other->qp->qp_num, .rq_psn = 0,
				   .max_dest_rd_atomic = 1, .min_rnr_timer = 12,
				   .ah_attr = { .is_global = 1, .port_num = 1,
						.grh = { .dgid = other->gid, .sgid_index = (uint8_t)end->index,
							 .hop_limit = 64 } } };
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS, .sq_psn = 0, .timeout = 14,
				   .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1 };

	if (ibv_modify_qp(end->qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		fail("to RTR");
	if (ibv_modify_qp(end->qp, &rts, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
		fail("to RTS");
}

static long long write_once(void)
{
	struct ibv_sge piece = { .addr = (uintptr_t)ends[0].memory, .length = 8, .lkey = ends[0].mr->lkey };
	struct ibv_send_wr write = { .sg_list = &piece, .num_sge = 1,
				     .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr *bad;
	struct ibv_wc done;
	long long start, end;
	int found;

	write.wr.rdma.remote_addr = (uintptr_t)ends[1].memory;
	write.wr.rdma.rkey = ends[1].mr->rkey;
	start = now();
	if (ibv_post_send(ends[0].qp, &write, &bad))
		fail("posting");
	do
		found = ibv_poll_cq(ends[0].cq, 1, &done);
	while (!found);
	end = now();
	if (found < 0 || done.status != IBV_WC_SUCCESS)
		fail("a WRITE did not complete with success");
	return end - start;
}

int main(int argc, char **argv)
{
	long count, i;
	long long *took;
	char line[16];

	if (argc != 4) {
		fprintf(stderr, "usage: verbs_loop DEVICE OTHER COUNT\n");
		return 2;
	}
	count = strtol(argv[3], NULL, 0);
	if (count <= 0) {
		fprintf(stderr, "verbs_loop: COUNT must be a number above 0, not \"%s\"\n", argv[3]);
		return 2;
	}
	took = calloc((size_t)count, sizeof *took);
	if (!took)
		fail("no memory");
	open_end(&ends[0], argv[1]);
	open_end(&ends[1], argv[2]);
	connect_end(&ends[0], &ends[1]);
	connect_end(&ends[1], &ends[0]);

	while (fgets(line, sizeof line, stdin)) {
		for (i = -count; i < count; i++) {
			long long one = write_once();

			if (i >= 0)
				took[i] = one;
		}
		for (i = 0; i < count; i++)
			printf("%lld ", took[i]);
		printf("\n");
		fflush(stdout);
	}
	return 0;
}
