// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Native packets: LRH, optional GRH, BTH, DETH, a MAD, ICRC, VCRC
 * (architecture 7.7, 8.3, 9.2, 9.3, 7.8).
 */

#include <asm/unaligned.h>
#include <linux/crc32.h>
#include <linux/string.h>
#include "vib.h"

#define LRH		8
#define BTH		12
#define DETH		8
#define ICRC		4
#define VCRC		2
#define LNH_LOCAL	2	/* LRH:LNH: a BTH follows */
#define LNH_GLOBAL	3	/* a GRH, then a BTH */
#define NEXT_BTH	0x1b	/* GRH:NxtHdr */
#define UD_SEND_ONLY	0x64
#define MIG_REQ		0x40	/* BTH:MigReq; 1 without path migration */
#define PERMISSIVE	0xffff
#define SM_VL		15
#define BTH_RESV8A	4	/* offset in the BTH */

/* x^16 + x^12 + x^3 + x + 1, with its bits in transmission order. */
#define VCRC_POLYNOMIAL	0xd008

static u16 vcrc_table[256];

void vib_packet_init(void)
{
	int byte, bit;

	for (byte = 0; byte < 256; byte++) {
		u16 crc = byte;

		for (bit = 0; bit < 8; bit++)
			crc = (crc >> 1) ^ (crc & 1 ? VCRC_POLYNOMIAL : 0);
		vcrc_table[byte] = crc;
	}
}

/* Computes the VCRC over the bytes of a packet without its VCRC. */
static u16 vcrc(const u8 *packet, size_t length)
{
	u16 crc = 0xffff;

	while (length--)
		crc = (crc >> 8) ^ vcrc_table[(crc ^ *packet++) & 0xff];
	return ~crc;
}

/* Computes the ICRC. Fields that a switch or router may change are replaced by ones. */
static u32 icrc(const u8 *packet, size_t length)
{
	bool global = (packet[1] & 3) == LNH_GLOBAL;
	size_t bth = LRH + (global ? VIB_GRH : 0);
	u8 head[LRH + VIB_GRH + BTH];

	memcpy(head, packet, bth + BTH);
	if (global) {
		memset(head, 0xff, LRH);
		head[LRH] |= 0x0f;
		memset(head + LRH + 1, 0xff, 3);
		head[LRH + 7] = 0xff;
	} else {
		head[0] |= 0xf0;
	}
	head[bth + BTH_RESV8A] = 0xff;
	return ~crc32_le(crc32_le(~0, head, bth + BTH), packet + bth + BTH,
			 length - bth - BTH);
}

static u8 *put_grh(u8 *at, struct vib_port *port, struct rdma_ah_attr *attr)
{
	const struct ib_global_route *route = rdma_ah_read_grh(attr);

	put_unaligned_be32(6u << 28 | (u32)route->traffic_class << 20 |
			   (route->flow_label & 0xfffff), at);
	put_unaligned_be16(BTH + DETH + VIB_MAD + ICRC, at + 4);
	at[6] = NEXT_BTH;
	at[7] = route->hop_limit;
	put_unaligned(port->info.gid_prefix, (__be64 *)(at + 8));
	put_unaligned(vib_port_guid(port), (__be64 *)(at + 16));
	memcpy(at + 24, route->dgid.raw, 16);
	return at + VIB_GRH;
}

/* Copies a MAD of 256 bytes from the pieces of its work request. */
static int put_payload(u8 *at, const struct ib_send_wr *wr)
{
	size_t length = 0;
	int i;

	for (i = 0; i < wr->num_sge; i++) {
		const struct ib_sge *piece = &wr->sg_list[i];

		if (piece->length > VIB_MAD - length)
			return -EINVAL;
		memcpy(at + length, (void *)(uintptr_t)piece->addr, piece->length);
		length += piece->length;
	}
	return length == VIB_MAD ? 0 : -EINVAL;
}

int vib_make_packet(struct vib_qp *qp, const struct ib_ud_wr *wr, u8 *packet)
{
	struct rdma_ah_attr *attr = &container_of(wr->ah, struct vib_ah, ib)->attr;
	struct vib_port *port = qp->port;
	bool is_smi = qp->ib.qp_num == 0;
	bool global = rdma_ah_get_ah_flags(attr) & IB_AH_GRH;
	u8 service = rdma_ah_get_sl(attr) & 0xf;
	u16 dlid = rdma_ah_get_dlid(attr);
	u16 slid = be16_to_cpu(port->info.lid);
	u16 p_key = 0xffff;
	u8 *at = packet + LRH;
	u8 lane = SM_VL;

	if (!is_smi) {
		if (wr->pkey_index >= VIB_P_KEYS)
			return -EINVAL;
		p_key = be16_to_cpu(port->p_keys[wr->pkey_index]);
		lane = port->sl_to_vl[service / 2];
		lane = service % 2 ? lane & 0xf : lane >> 4;
	}
	/* The source LID is permissive for a directed route, and for a port without a LID. */
	if (!slid || dlid == PERMISSIVE)
		slid = PERMISSIVE;
	else
		slid |= rdma_ah_get_path_bits(attr) & ((1 << vib_lmc(&port->info)) - 1);
	if (global)
		at = put_grh(at, port, attr);

	at[0] = UD_SEND_ONLY;
	at[1] = MIG_REQ | (wr->wr.send_flags & IB_SEND_SOLICITED ? 0x80 : 0);
	put_unaligned_be16(p_key, at + 2);
	put_unaligned_be32(wr->remote_qpn & 0xffffff, at + 4);
	put_unaligned_be32(qp->psn, at + 8);
	qp->psn = (qp->psn + 1) & 0xffffff;
	/* The highest bit selects the Q_Key of the queue pair itself (10.2.4). */
	put_unaligned_be32(wr->remote_qkey & 0x80000000 ? qp->q_key : wr->remote_qkey, at + BTH);
	put_unaligned_be32(qp->ib.qp_num, at + BTH + 4);
	at += BTH + DETH;
	if (put_payload(at, &wr->wr))
		return -EINVAL;
	at += VIB_MAD;

	packet[0] = lane << 4;
	packet[1] = service << 4 | (global ? LNH_GLOBAL : LNH_LOCAL);
	put_unaligned_be16(dlid, packet + 2);
	/* PktLen is in words of 4 bytes, with the ICRC and without the VCRC. */
	put_unaligned_be16((at + ICRC - packet) / 4, packet + 4);
	put_unaligned_be16(slid, packet + 6);
	put_unaligned_le32(icrc(packet, at - packet), at);
	at += ICRC;
	put_unaligned_le16(vcrc(packet, at - packet), at);
	return at + VCRC - packet;
}

static bool is_own_lid(const struct ib_port_info *info, u16 lid)
{
	u16 base = be16_to_cpu(info->lid);

	return base && lid >> vib_lmc(info) == base >> vib_lmc(info);
}

bool vib_is_for_itself(const struct vib_port *port, const u8 *packet)
{
	return is_own_lid(&port->info, get_unaligned_be16(packet + 2));
}

/* Returns the index of a P_Key that matches the packet's, or a negative number (10.9.3). */
static int find_p_key(const struct vib_port *port, u16 p_key)
{
	int i;

	for (i = 0; i < VIB_P_KEYS; i++) {
		u16 ours = be16_to_cpu(port->p_keys[i]);
		bool same = (ours & 0x7fff) == (p_key & 0x7fff) && (ours & 0x7fff);

		if (same && ((ours | p_key) & 0x8000))
			return i;
	}
	return -1;
}

static void count(__be16 *counter)
{
	u16 now = be16_to_cpu(*counter);

	if (now < 0xffff)
		*counter = cpu_to_be16(now + 1);
}

void vib_receive(struct vib_port *port, const u8 *packet, size_t length)
{
	u8 lnh, state = vib_port_state(&port->info);
	size_t bth, whole;
	const u8 *t;
	u16 dlid;
	u32 number;
	int p_key = 0;
	struct vib_qp *qp;
	struct vib_recv *recv;
	u8 *buffer;
	struct ib_wc wc = {};

	if (state == IB_PORT_DOWN || length < LRH)
		return;
	lnh = packet[1] & 3;
	bth = LRH + (lnh == LNH_GLOBAL ? VIB_GRH : 0);
	whole = bth + BTH + DETH + VIB_MAD + ICRC;
	dlid = get_unaligned_be16(packet + 2);
	/* Check lengths, versions and CRCs. */
	if (length != whole + VCRC || (packet[0] & 0xf) || lnh < LNH_LOCAL ||
	    (get_unaligned_be16(packet + 4) & 0x7ff) * 4 != whole ||
	    get_unaligned_le16(packet + whole) != vcrc(packet, whole) ||
	    get_unaligned_le32(packet + whole - ICRC) != icrc(packet, whole - ICRC))
		return;
	/* The packet must be for the SMI, QP0, and on VL 15, or for the GSI, QP1, and on another VL. */
	t = packet + bth;
	number = get_unaligned_be32(t + 4) & 0xffffff;
	if (t[0] != UD_SEND_ONLY || number > 1 ||
	    (number == 0) != (packet[0] >> 4 == SM_VL) ||
	    !(is_own_lid(&port->info, dlid) || (number == 0 && dlid == PERMISSIVE)))
		return;
	qp = port->qp[number];
	if (!qp || (qp->state != IB_QPS_RTR && qp->state != IB_QPS_RTS))
		return;
	if (number == 1) {
		if (state != IB_PORT_ARMED && state != IB_PORT_ACTIVE)
			return;
		p_key = find_p_key(port, get_unaligned_be16(t + 2));
		if (p_key < 0) {
			count(&port->info.pkey_violations);
			return;
		}
		if (get_unaligned_be32(t + BTH) != qp->q_key) {
			count(&port->info.qkey_violations);
			return;
		}
	}
	if (qp->head == qp->tail)
		return;

	recv = &qp->ring[qp->head];
	qp->head = (qp->head + 1) % qp->size;
	buffer = (u8 *)(uintptr_t)recv->sge.addr;
	if (lnh == LNH_GLOBAL)
		memcpy(buffer, packet + LRH, VIB_GRH);
	else
		memset(buffer, 0, VIB_GRH);
	memcpy(buffer + VIB_GRH, t + BTH + DETH, VIB_MAD);
	wc.wr_cqe = recv->cqe;
	wc.opcode = IB_WC_RECV;
	wc.byte_len = VIB_GRH + VIB_MAD;
	wc.qp = &qp->ib;
	wc.src_qp = get_unaligned_be32(t + BTH + 4) & 0xffffff;
	wc.slid = get_unaligned_be16(packet + 6);
	wc.sl = packet[1] >> 4;
	wc.pkey_index = p_key;
	wc.port_num = port->number;
	wc.wc_flags = lnh == LNH_GLOBAL ? IB_WC_GRH : 0;
	if (dlid != PERMISSIVE)
		wc.dlid_path_bits = dlid & ((1 << vib_lmc(&port->info)) - 1);
	vib_complete(qp->init.recv_cq, &wc);
}
