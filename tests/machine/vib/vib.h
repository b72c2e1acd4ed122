/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * vib: a native InfiniBand adapter whose cables are character devices.
 *
 * Emulators have no ports of link layer InfiniBand, so a lab's machine loads this module.
 * The module provides such ports to the kernel's own ib_core, ib_mad and ib_umad. Each
 * port has only the two queue pairs of management, QP0 and QP1. The queue pairs send
 * native packets, from LRH to VCRC.
 *
 *   main.c    the device and its ports, as the kernel queries them
 *   verbs.c   queue pairs, completion queues, posting
 *   packet.c  native packets: builds them from work requests, checks and delivers them
 *   cable.c   /dev/vib0p1 and up: the far end of each port's cable
 *   agent.c   the subnet management agent of the adapter's own ports
 */
#ifndef VIB_H
#define VIB_H

#include <linux/list.h>
#include <linux/miscdevice.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <rdma/ib_mad.h>
#include <rdma/ib_smi.h>
#include <rdma/ib_verbs.h>

#define VIB_PORTS	16	/* most ports of the adapter */
#define VIB_P_KEYS	32	/* one block of the P_KeyTable */

#define VIB_GRH		40	/* bytes before the MAD in a receive buffer */
#define VIB_MAD		256
/* Longest packet that is sent or accepted: LRH, GRH, BTH, DETH, MAD, ICRC, VCRC. */
#define VIB_PACKET	(8 + VIB_GRH + 12 + 8 + VIB_MAD + 4 + 2)

/* A posted receive. */
struct vib_recv {
	struct ib_cqe *cqe;
	struct ib_sge sge;
};

struct vib_cq {
	struct ib_cq ib;
	spinlock_t lock;	/* protects the fields below */
	struct ib_wc *ring;	/* one entry more than the capacity */
	u32 size, head, tail;
	bool armed;
};

struct vib_qp {
	struct ib_qp ib;
	struct vib_port *port;
	struct ib_qp_init_attr init;
	enum ib_qp_state state;	/* from here on, protected by the port's lock */
	u32 psn, q_key;
	struct vib_recv *ring;	/* one entry more than the capacity */
	u32 size, head, tail;
};

struct vib_ah {
	struct ib_ah ib;
	struct rdma_ah_attr attr;
};

struct vib_pd {
	struct ib_pd ib;
};

struct vib_port {
	struct vib_device *device;
	u8 number;
	/* Taken with interrupts off. Lock order: ib_mad's locks, this lock, a CQ's lock. */
	spinlock_t lock;
	/* The attributes that the subnet manager reads and sets, including M_Key and counters. */
	struct ib_port_info info;
	__be16 p_keys[VIB_P_KEYS];
	u8 sl_to_vl[8];
	u8 vl_arbitration[4][IB_SMP_DATA_SIZE];
	struct vib_qp *qp[2];
	/* Packets that wait for the cable's far end. */
	struct list_head out;
	u32 waiting;
	bool cabled;
	wait_queue_head_t wait;
	struct miscdevice misc;
	char name[16];
};

struct vib_device {
	struct ib_device ib;
	struct vib_port ports[VIB_PORTS];
};

static inline struct vib_device *to_vib(struct ib_device *device)
{
	return container_of(device, struct vib_device, ib);
}

static inline struct vib_port *vib_port(struct ib_device *device, u32 number)
{
	return &to_vib(device)->ports[number - 1];
}

/* Returns PortState, which shares a byte of PortInfo with another field. */
static inline u8 vib_port_state(const struct ib_port_info *info)
{
	return info->linkspeed_portstate & 0xf;
}

static inline u8 vib_lmc(const struct ib_port_info *info)
{
	return info->mkeyprot_resv_lmc & 0x7;
}

static inline __be64 vib_port_guid(const struct vib_port *port)
{
	return cpu_to_be64(be64_to_cpu(port->device->ib.node_guid) + port->number);
}

/* Reports an event of a port to the kernel. The caller must not hold the port's lock. */
void vib_event(struct vib_port *port, enum ib_event_type what);

/* verbs.c */
extern const struct ib_device_ops vib_verbs;
/* Adds a completion. The caller must not hold the CQ's lock. */
void vib_complete(struct ib_cq *cq, const struct ib_wc *wc);

/* packet.c; the caller holds the port's lock. */
/* Builds a packet from a work request; returns its length, or a negative error. */
int vib_make_packet(struct vib_qp *qp, const struct ib_ud_wr *wr, u8 *packet);
/* Handles a received packet: delivers it to its queue pair, or drops it. */
void vib_receive(struct vib_port *port, const u8 *packet, size_t length);
/* Returns whether a packet of this port is addressed to this port. */
bool vib_is_for_itself(const struct vib_port *port, const u8 *packet);
void vib_packet_init(void);

/* cable.c */
int vib_cable_add(struct vib_port *port);
void vib_cable_remove(struct vib_port *port);
/* Sends a packet. The packet is lost if the far end does not read. The caller holds the port's lock. */
void vib_send(struct vib_port *port, const u8 *packet, size_t length);

/* agent.c */
void vib_agent_init(struct vib_port *port);
int vib_process_mad(struct ib_device *device, int flags, u32 port_num,
		    const struct ib_wc *wc, const struct ib_grh *grh,
		    const struct ib_mad *in, struct ib_mad *out,
		    size_t *out_size, u16 *out_pkey_index);
/* Brings the link up or down. The caller holds the port's lock. */
void vib_link(struct ib_port_info *info, bool up);

#endif
