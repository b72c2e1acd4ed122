// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The operations on queue pairs and completion queues that ib_mad needs.
 *
 * A send completes when it is posted, because the completion of an unreliable datagram
 * only reports that the datagram was sent.
 */

#include <linux/slab.h>
#include "vib.h"

static struct vib_cq *to_cq(struct ib_cq *cq)
{
	return container_of(cq, struct vib_cq, ib);
}

static struct vib_qp *to_qp(struct ib_qp *qp)
{
	return container_of(qp, struct vib_qp, ib);
}

static int vib_alloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	return 0;
}

static int vib_dealloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	return 0;
}

static int vib_create_ah(struct ib_ah *ah, struct rdma_ah_init_attr *init,
			 struct ib_udata *udata)
{
	rdma_copy_ah_attr(&container_of(ah, struct vib_ah, ib)->attr, init->ah_attr);
	return 0;
}

/* ib_mad compares this address with the source of a response to a LID-routed request. */
static int vib_query_ah(struct ib_ah *ah, struct rdma_ah_attr *attr)
{
	*attr = container_of(ah, struct vib_ah, ib)->attr;
	return 0;
}

static int vib_destroy_ah(struct ib_ah *ah, u32 flags)
{
	rdma_destroy_ah_attr(&container_of(ah, struct vib_ah, ib)->attr);
	return 0;
}

static int vib_create_cq(struct ib_cq *ib_cq, const struct ib_cq_init_attr *attr,
			 struct ib_udata *udata)
{
	struct vib_cq *cq = to_cq(ib_cq);

	cq->size = attr->cqe + 1;
	cq->ring = kvcalloc(cq->size, sizeof(*cq->ring), GFP_KERNEL);
	if (!cq->ring)
		return -ENOMEM;
	spin_lock_init(&cq->lock);
	ib_cq->cqe = attr->cqe;
	return 0;
}

static int vib_destroy_cq(struct ib_cq *ib_cq, struct ib_udata *udata)
{
	kvfree(to_cq(ib_cq)->ring);
	return 0;
}

void vib_complete(struct ib_cq *ib_cq, const struct ib_wc *wc)
{
	struct vib_cq *cq = to_cq(ib_cq);
	unsigned long flags;
	bool armed = false;
	u32 next;

	spin_lock_irqsave(&cq->lock, flags);
	next = (cq->tail + 1) % cq->size;
	if (!WARN_ONCE(next == cq->head, "vib: a completion queue overflows\n")) {
		cq->ring[cq->tail] = *wc;
		cq->tail = next;
		armed = cq->armed;
		cq->armed = false;
	}
	spin_unlock_irqrestore(&cq->lock, flags);
	if (armed)
		ib_cq->comp_handler(ib_cq, ib_cq->cq_context);
}

static int vib_poll_cq(struct ib_cq *ib_cq, int room, struct ib_wc *wc)
{
	struct vib_cq *cq = to_cq(ib_cq);
	unsigned long flags;
	int count = 0;

	spin_lock_irqsave(&cq->lock, flags);
	while (count < room && cq->head != cq->tail) {
		wc[count++] = cq->ring[cq->head];
		cq->head = (cq->head + 1) % cq->size;
	}
	spin_unlock_irqrestore(&cq->lock, flags);
	return count;
}

static int vib_req_notify_cq(struct ib_cq *ib_cq, enum ib_cq_notify_flags wanted)
{
	struct vib_cq *cq = to_cq(ib_cq);
	unsigned long flags;
	bool missed;

	spin_lock_irqsave(&cq->lock, flags);
	cq->armed = true;
	missed = cq->head != cq->tail;
	spin_unlock_irqrestore(&cq->lock, flags);
	return (wanted & IB_CQ_REPORT_MISSED_EVENTS) && missed;
}

/* Creates QP0 or QP1 of a port. Other queue pairs are not supported. */
static int vib_create_qp(struct ib_qp *ib_qp, struct ib_qp_init_attr *attr,
			 struct ib_udata *udata)
{
	struct vib_qp *qp = to_qp(ib_qp);
	struct vib_port *port;
	unsigned long flags;
	int error = 0;

	if (attr->qp_type != IB_QPT_SMI && attr->qp_type != IB_QPT_GSI)
		return -EOPNOTSUPP;
	if (!rdma_is_port_valid(ib_qp->device, attr->port_num))
		return -EINVAL;
	port = vib_port(ib_qp->device, attr->port_num);
	qp->port = port;
	qp->init = *attr;
	qp->state = IB_QPS_RESET;
	qp->size = attr->cap.max_recv_wr + 1;
	qp->ring = kvcalloc(qp->size, sizeof(*qp->ring), GFP_KERNEL);
	if (!qp->ring)
		return -ENOMEM;
	ib_qp->qp_num = attr->qp_type == IB_QPT_GSI;
	spin_lock_irqsave(&port->lock, flags);
	if (port->qp[ib_qp->qp_num])
		error = -EBUSY;
	else
		port->qp[ib_qp->qp_num] = qp;
	spin_unlock_irqrestore(&port->lock, flags);
	if (error)
		kvfree(qp->ring);
	return error;
}

static int vib_destroy_qp(struct ib_qp *ib_qp, struct ib_udata *udata)
{
	struct vib_qp *qp = to_qp(ib_qp);
	unsigned long flags;

	spin_lock_irqsave(&qp->port->lock, flags);
	qp->port->qp[ib_qp->qp_num] = NULL;
	spin_unlock_irqrestore(&qp->port->lock, flags);
	kvfree(qp->ring);
	return 0;
}

/* Completes the posted receives with a flush error. The caller holds the port's lock. */
static void vib_flush(struct vib_qp *qp)
{
	while (qp->head != qp->tail) {
		struct ib_wc wc = {
			.wr_cqe = qp->ring[qp->head].cqe,
			.status = IB_WC_WR_FLUSH_ERR,
			.qp = &qp->ib,
		};

		vib_complete(qp->init.recv_cq, &wc);
		qp->head = (qp->head + 1) % qp->size;
	}
}

static int vib_modify_qp(struct ib_qp *ib_qp, struct ib_qp_attr *attr, int mask,
			 struct ib_udata *udata)
{
	struct vib_qp *qp = to_qp(ib_qp);
	unsigned long flags;

	spin_lock_irqsave(&qp->port->lock, flags);
	if (mask & IB_QP_SQ_PSN)
		qp->psn = attr->sq_psn & 0xffffff;
	if (mask & IB_QP_QKEY)
		qp->q_key = attr->qkey;
	if (mask & IB_QP_STATE) {
		qp->state = attr->qp_state;
		if (qp->state == IB_QPS_ERR)
			vib_flush(qp);
		else if (qp->state == IB_QPS_RESET)
			qp->head = qp->tail;
	}
	spin_unlock_irqrestore(&qp->port->lock, flags);
	return 0;
}

static int vib_query_qp(struct ib_qp *ib_qp, struct ib_qp_attr *attr, int mask,
			struct ib_qp_init_attr *init)
{
	struct vib_qp *qp = to_qp(ib_qp);

	attr->qp_state = qp->state;
	attr->cur_qp_state = qp->state;
	attr->sq_psn = qp->psn;
	attr->qkey = qp->q_key;
	attr->cap = qp->init.cap;
	*init = qp->init;
	return 0;
}

static int vib_post_send(struct ib_qp *ib_qp, const struct ib_send_wr *wr,
			 const struct ib_send_wr **bad)
{
	struct vib_qp *qp = to_qp(ib_qp);
	struct vib_port *port = qp->port;
	u8 packet[VIB_PACKET];
	unsigned long flags;

	for (; wr; wr = wr->next) {
		struct ib_wc wc = {
			.wr_cqe = wr->wr_cqe,
			.opcode = IB_WC_SEND,
			.qp = ib_qp,
		};
		int length = -EINVAL;

		spin_lock_irqsave(&port->lock, flags);
		if (qp->state == IB_QPS_ERR) {
			wc.status = IB_WC_WR_FLUSH_ERR;
			length = 0;
		} else if (qp->state == IB_QPS_RTS && wr->opcode == IB_WR_SEND) {
			length = vib_make_packet(qp, ud_wr(wr), packet);
			if (length > 0 && vib_is_for_itself(port, packet))
				vib_receive(port, packet, length);
			else if (length > 0)
				vib_send(port, packet, length);
		}
		spin_unlock_irqrestore(&port->lock, flags);
		if (length < 0) {
			*bad = wr;
			return length;
		}
		vib_complete(qp->init.send_cq, &wc);
	}
	return 0;
}

static int vib_post_recv(struct ib_qp *ib_qp, const struct ib_recv_wr *wr,
			 const struct ib_recv_wr **bad)
{
	struct vib_qp *qp = to_qp(ib_qp);
	unsigned long flags;
	int error = 0;

	spin_lock_irqsave(&qp->port->lock, flags);
	for (; wr; wr = wr->next) {
		u32 next = (qp->tail + 1) % qp->size;

		if (wr->num_sge != 1 || wr->sg_list[0].length < VIB_GRH + VIB_MAD)
			error = -EINVAL;
		else if (next == qp->head)
			error = -ENOMEM;
		if (error) {
			*bad = wr;
			break;
		}
		qp->ring[qp->tail] = (struct vib_recv){ wr->wr_cqe, wr->sg_list[0] };
		qp->tail = next;
	}
	spin_unlock_irqrestore(&qp->port->lock, flags);
	return error;
}

/* ib_core attaches ib_mad only to a device with these operations, but does not call them. */
static struct ib_mr *vib_get_dma_mr(struct ib_pd *pd, int access)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static struct ib_mr *vib_reg_user_mr(struct ib_pd *pd, u64 start, u64 length,
				     u64 address, int access, struct ib_udata *udata)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static int vib_dereg_mr(struct ib_mr *mr, struct ib_udata *udata)
{
	return -EOPNOTSUPP;
}

const struct ib_device_ops vib_verbs = {
	.alloc_pd = vib_alloc_pd,
	.dealloc_pd = vib_dealloc_pd,
	.create_ah = vib_create_ah,
	.query_ah = vib_query_ah,
	.destroy_ah = vib_destroy_ah,
	.create_cq = vib_create_cq,
	.destroy_cq = vib_destroy_cq,
	.poll_cq = vib_poll_cq,
	.req_notify_cq = vib_req_notify_cq,
	.create_qp = vib_create_qp,
	.modify_qp = vib_modify_qp,
	.query_qp = vib_query_qp,
	.destroy_qp = vib_destroy_qp,
	.post_send = vib_post_send,
	.post_recv = vib_post_recv,
	.get_dma_mr = vib_get_dma_mr,
	.reg_user_mr = vib_reg_user_mr,
	.dereg_mr = vib_dereg_mr,
	INIT_RDMA_OBJ_SIZE(ib_pd, vib_pd, ib),
	INIT_RDMA_OBJ_SIZE(ib_ah, vib_ah, ib),
	INIT_RDMA_OBJ_SIZE(ib_cq, vib_cq, ib),
	INIT_RDMA_OBJ_SIZE(ib_qp, vib_qp, ib),
};
